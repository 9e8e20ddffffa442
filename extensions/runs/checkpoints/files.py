"""A party's files of one run, each a digest and then arrays, the first of which is a header.

In the order of a run, party R has

1. ``party-R-step-N.checkpoint``, its shares after N steps; ``party-R-NAME.opening``, its words of a
   release on the way; and ``party-R.charges``, what the run had spent when a value was last opened:
   a folder that has not the last one is not resumed;
2. ``party-R.release``, its shares of the model and its words of all that will be opened;
3. ``party-R.finished``, which names that release (`extensions.runs.checkpoints.marks`);
4. ``party-R-opened.npz`` and ``party-R-result.json``, what was opened; the latter is written last.
   Once all parties have both, words are removed.
"""

import hashlib
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from extensions import durable
from extensions.errors import ArgumentError
from extensions.npz import read_npz
from extensions.ring.fixed_point import Integers

STEP, OPENING, CHARGES, RELEASE = "-step-{}.checkpoint", "-{}.opening", ".charges", ".release"
"""Kinds of files of shares: what follows ``party-R`` in their names."""
KINDS = (STEP, OPENING, CHARGES, RELEASE)
MARK, RESULT, OPENED = ".finished", "-result.json", "-opened.npz"
"""Kinds of other files, likewise."""
_FORMAT = 4
_BEGINNING = re.compile(rb"pea checkpoint (\d{1,9})\n")
_HEADER = "header"
_ARRAYS = {"shares": "share:", "outputs": "output:"}
"""Attributes that hold arrays, and what their names have before them in the file."""
unusable = partial(ArgumentError, "checkpoint", code="file")
"""Makes the error of a file or folder of checkpoints."""


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """What one party has after some step of a run.

    Attributes:
        rank: the party.
        run: name of the run, random, agreed on by all parties.
        attempt: name of the start or continuation in which it was written, likewise: checkpoints of
            one step are parts of one model only if they are of one attempt.
        step: number of steps made.
        resumed: steps from which the run was continued before.
        settings: public settings of the run, with the sizes of the party's own records.
        optimizer: its ledger and counts.
        source: state of an insecure seeded source; None with the system's generator, which has
            none and is drawn from afresh.
        shares: this party's share of each parameter, ring integers.
        recipients: the parties to whom `outputs` are opened; empty before that is computed.
        outputs: this party's summand of each value that is opened at the end.
        entry: name of the run in the ledger of the party's data set.
        opening: name of the release on the way of which `outputs` are; empty otherwise.
        charges: number of times that the run was charged before (`PartyCheckpoints.charge`).
    """

    rank: int
    run: str
    attempt: str
    step: int = 0
    resumed: tuple[int, ...] = ()
    settings: Mapping[str, Any]
    optimizer: Mapping[str, Any] = field(default_factory=dict)
    source: Mapping[str, Any] | None = None
    shares: Mapping[str, Integers] = field(default_factory=dict)
    recipients: tuple[int, ...] = ()
    outputs: Mapping[str, Integers] = field(default_factory=dict)
    entry: str = ""
    opening: str = ""
    charges: int = 0

    @property
    def identity(self) -> tuple[str, int]:
        """What is equal in all parts of one model."""
        return self.attempt, self.step

    @property
    def release(self) -> str:
        """Name of the release that these outputs are of, equal at all parties; no other has it."""
        shapes = {name: output.shape for name, output in self.outputs.items()}
        what = (self.run, self.attempt, self.step, shapes, self.recipients)
        return hashlib.sha256(json.dumps(what).encode()).hexdigest()


@dataclass(frozen=True)
class Files:
    """What one party has in a folder, in which others may have files too."""

    folder: Path
    rank: int

    def path(self, kind: str, name: object = "") -> Path:
        """Returns where a file of a kind lies: of a name, where the kind has several."""
        return self.folder / f"party-{self.rank}{kind.format(name)}"

    def all(self, *kinds: str) -> list[Path]:
        """Returns the files of these kinds."""
        return [path for kind in kinds for path in self.folder.glob(self.path(kind, "*").name)]

    def read(self, *kinds: str) -> tuple[Checkpoint, ...]:
        """Returns what the files of these kinds hold."""
        return tuple(read(path, self.rank) for path in self.all(*kinds))

    def remove(self, *kinds: str, kept: Sequence[Path] = ()) -> None:
        """Removes files of these kinds, but for some, and what interrupted writes left of them."""
        for kind in kinds:
            left = self.folder.glob(f".{self.path(kind, '*').name}.*")
            for path in [*left, *self.all(kind)]:
                if path not in kept:
                    path.unlink()


def write(path: Path, checkpoint: Checkpoint) -> None:
    """Writes a file as a whole or not at all, for its owner alone, and onto the disk."""
    header = {name: value for name, value in vars(checkpoint).items() if name not in _ARRAYS}
    arrays = {
        prefix + name: array
        for kind, prefix in _ARRAYS.items()
        for name, array in getattr(checkpoint, kind).items()
    }
    text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    body = io.BytesIO()
    np.savez(body, **{_HEADER: text}, **arrays)  # type: ignore[arg-type]
    content = body.getvalue()
    try:
        with durable.write(path) as file:
            file.write(b"pea checkpoint %d\n" % _FORMAT)
            file.write(hashlib.sha256(content).digest() + content)
    except OSError as error:
        advice = f"{error}. Then resume the run: nothing was opened yet."
        raise unusable(str(path), "a file to write", advice) from error


def read(path: Path, rank: int) -> Checkpoint:
    """Returns what party `rank` wrote.

    Raises ArgumentError if the file is missing, damaged, of a later version, another party's, or
    named as another step's.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise unusable(str(path), "a file that can be read") from error
    begins = _BEGINNING.match(content)
    if begins is not None and int(begins[1]) > _FORMAT:
        given = f"{path}, of format {int(begins[1])}, which a later version wrote"
        raise unusable(given, f"of format {_FORMAT}", "Resume with the run's version of PEA.")
    try:
        if begins is None or int(begins[1]) != _FORMAT:
            raise ValueError("its format is another")
        start = begins.end() + hashlib.sha256().digest_size
        body = content[start:]
        if content[begins.end() : start] != hashlib.sha256(body).digest():
            raise ValueError("its digest is another")
        found = _checkpoint(read_npz(io.BytesIO(body)))
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        advice = "Remove it to resume from the one before, if all parties have that."
        raise unusable(str(path), "an undamaged checkpoint of this version", advice) from error
    if found.rank != rank:
        raise unusable(f"{path} of party {found.rank}", f"a file of party {rank}")
    step = Files(path.parent, rank).path(STEP, found.step)
    if path.suffix == step.suffix and (path != step or found.opening or found.recipients):
        given = f"{path}, which holds other shares"
        raise unusable(given, "the checkpoint of its name", "Remove it.")
    return found


def _checkpoint(arrays: Mapping[str, Any]) -> Checkpoint:
    fields = json.loads(arrays[_HEADER].tobytes())
    for kind, prefix in _ARRAYS.items():
        names = [name for name in arrays if name.startswith(prefix)]
        fields[kind] = {name.removeprefix(prefix): arrays[name] for name in names}
    for name in ("resumed", "recipients"):
        fields[name] = tuple(fields[name])
    return Checkpoint(**fields)
