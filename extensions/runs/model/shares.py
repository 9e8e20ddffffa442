"""One party's share of a model, as a run saves it, and what it says of the run."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy.typing as npt

from extensions.data.datasets import write_private
from extensions.errors import ArgumentError
from extensions.protocols.host import named
from extensions.protocols.noisy_sums.whitening import Whitening
from extensions.ring.fixed_point import Integers
from extensions.runs.model.files import HEADER, SHARED, ModelFile, header_array, whitening_arrays
from extensions.runs.model.header import Header

RANK = "rank"


@dataclass(frozen=True, kw_only=True)
class SharedModel:
    """One party's share.

    Attributes:
        header: what is known of the model, the same at all parties.
        save: name of the save, by which files of one save are known.
        rank: whose it is.
        parts: this party's summand of each weight and bias in turn. The sum of all parties' modulo
            2^64, times 2^-frac_bits, is the model.
        entry: name of the run in the ledger of this party's records; empty where none is known.
        run: name of the run if it kept checkpoints, and of its release; else both are empty.
        release: see `run`.
        whitening: of the model's features, which is public, or None.
    """

    header: Header
    save: tuple[int, ...]
    rank: int
    parts: Sequence[Integers]
    entry: str = ""
    run: str = ""
    release: str = ""
    whitening: Whitening | None = None

    @property
    def name(self) -> str:
        """The save's name as one word."""
        return "-".join(f"{word:016x}" for word in self.save)

    @property
    def digest(self) -> str:
        """SHA-256 of the share, in hexadecimal."""
        return hashlib.sha256(b"".join(part.tobytes() for part in self.parts)).hexdigest()


def write_shares(path: Path, shared: SharedModel) -> Path:
    """Writes a party's share, readable by its owner only."""
    facts: dict[str, npt.ArrayLike] = {
        "frac_bits": shared.header.frac_bits,
        SHARED: shared.save,
        RANK: shared.rank,
        HEADER: header_array(shared.header),
        "entry": shared.entry,
        "run": shared.run,
        "release": shared.release,
        **whitening_arrays(shared.whitening),
    }
    return write_private(path, **facts, **named(shared.parts))


def read_shares(path: Path) -> SharedModel:
    """Returns the share in a file."""
    file = ModelFile("shares", path)
    arrays = file.arrays
    if SHARED not in arrays or RANK not in arrays:
        raise file.unusable("a party's share", "Give an opened model as {model}.")
    header = file.header()
    parts = file.parameters(header.spec.network)
    if any(part.dtype != "int64" for part in parts):
        raise file.unusable("a file of 64-bit integers")
    save, rank = arrays[SHARED], arrays[RANK]
    numbers = save.ndim == 1 and all(each.dtype.kind in "iu" for each in (save, rank))
    if not numbers or rank.tolist() not in range(len(save)):
        raise file.unusable("an undamaged share of one party of a save")
    known = {name: str(arrays[name]) for name in ("entry", "run", "release") if name in arrays}
    return SharedModel(
        header=header,
        save=tuple(save.tolist()),
        rank=rank.tolist(),
        parts=parts,
        whitening=file.whitening(header),
        **known,
    )


def read_own(path: Path, rank: int) -> SharedModel:
    """Returns the share in a file of a party; ArgumentError if it is another party's."""
    found = read_shares(path)
    if found.rank != rank:
        allowed = f"the share of party {rank}"
        advice = f"It was saved as {path_of(Path(), found.rank)}."
        given = f"{path}, the share of party {found.rank}"
        raise ArgumentError("shares", given, allowed, advice, code="file")
    return found


def paths_in(folder: Path) -> list[Path]:
    """Returns the files of all parties in a folder, by rank, all of one save."""
    first = read_own(path_of(folder, 0), 0)
    paths = [path_of(folder, rank) for rank in range(len(first.save))]
    for rank, path in enumerate(paths[1:], start=1):
        other = read_own(path, rank)
        if other.save != first.save or other.header.common != first.header.common:
            allowed = "from the same run as party-0.npz"
            raise ArgumentError("shares", str(path), allowed, "Each run has its own.", code="file")
    return paths


def path_of(folder: Path, rank: int) -> Path:
    """Returns where a party's share lies in a folder."""
    return folder / f"party-{rank}.npz"
