"""One party's checkpoint, or its release, as a file: a digest, then arrays, the first a header."""

import hashlib
import io
import json
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

_MAGIC = b"pea checkpoint 4\n"
_HEADER = "header"
_SUFFIX = ".checkpoint"
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
    step: int
    resumed: tuple[int, ...]
    settings: Mapping[str, Any]
    optimizer: Mapping[str, Any]
    source: Mapping[str, Any] | None
    shares: Mapping[str, Integers]
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


def opening_path(folder: Path, rank: int, name: str) -> Path:
    """Returns where a party keeps its words of a release on the way."""
    return folder / f"party-{rank}-{name}.opening"


def openings_in(folder: Path, rank: int) -> list[Path]:
    """Returns a party's words of releases on the way."""
    return list(folder.glob(f"party-{rank}-*.opening"))


def remove_openings(folder: Path, rank: int) -> None:
    """A party's words of releases on the way are gone, and what interrupted writes left of them."""
    for path in [*openings_in(folder, rank), *folder.glob(f".party-{rank}-*.opening.*")]:
        path.unlink()


def charges_path(folder: Path, rank: int) -> Path:
    """Returns where a party keeps what its run had spent when something was last opened."""
    return folder / f"party-{rank}.charges"


def path_of(folder: Path, rank: int, step: int) -> Path:
    """Returns where a party's checkpoint of a step lies."""
    return folder / f"party-{rank}-step-{step}{_SUFFIX}"


def paths_in(folder: Path, rank: int) -> list[Path]:
    """Returns a party's checkpoints."""
    return list(folder.glob(f"party-{rank}-step-*{_SUFFIX}"))


def remove(folder: Path, rank: int, kept: Sequence[Path] = ()) -> None:
    """A party's checkpoints are gone, but for some; so is what an interrupted write left."""
    for path in [*paths_in(folder, rank), *folder.glob(f".party-{rank}-step-*")]:
        if path not in kept:
            path.unlink()


def write(path: Path, checkpoint: Checkpoint) -> None:
    """Writes the checkpoint as a whole or not at all, for its owner alone, and onto the disk."""
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
    with durable.write(path) as file:
        file.write(_MAGIC + hashlib.sha256(content).digest() + content)


def read(path: Path, rank: int) -> Checkpoint:
    """Returns what party `rank` wrote.

    Raises:
        ArgumentError: the file is missing, damaged, another party's, or named as another step's.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise unusable(str(path), "a file that can be read") from error
    start = len(_MAGIC) + hashlib.sha256().digest_size
    body = content[start:]
    try:
        if content[:start] != _MAGIC + hashlib.sha256(body).digest():
            raise ValueError("its digest is another")
        found = _checkpoint(read_npz(io.BytesIO(body)))
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        advice = "Remove it to resume from the one before, if all parties have that."
        raise unusable(str(path), "an undamaged checkpoint of this version", advice) from error
    if found.rank != rank:
        raise unusable(f"{path} of party {found.rank}", f"a file of party {rank}")
    step = path_of(path.parent, rank, found.step)
    if path.suffix == _SUFFIX and (path != step or found.opening or found.recipients):
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
