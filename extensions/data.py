"""Data sets for `pea train`, cut into one file for each party."""

import gzip
import math
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from extensions.errors import ArgumentError
from extensions.fixed_point import Reals

Labels = npt.NDArray[np.int64]

TEST_SHARE = 0.2
MNIST_FILES = {
    "train": ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"),
    "test": ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"),
}
IDX_MAGIC = {1: 0x0801, 3: 0x0803}


@dataclass(frozen=True, kw_only=True)
class Split:
    """Features (records, features) and labels (records,), for training and for testing."""

    train_x: Reals
    train_y: Labels
    test_x: Reals
    test_y: Labels

    def facts(self, rank: int) -> dict[str, int]:
        """Returns the public sizes, by name, of the records that party `rank` holds."""
        return _facts(rank, len(self.train_x), len(self.test_x), self.train_x.shape[1])


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Public sizes of all parties' records.

    Attributes:
        train: number of training records of each party.
        test: number of held-out records of each party.
        features: columns.

    Raises:
        ArgumentError: not one number of each kind for every party, or one below 1.
    """

    train: tuple[int, ...]
    test: tuple[int, ...]
    features: int

    def __post_init__(self) -> None:
        if len(self.train) != len(self.test):
            given = (len(self.train), len(self.test))
            raise ArgumentError("records, held_out", given, "as many numbers of either")
        for name in ("train", "test"):
            if min(getattr(self, name), default=0) < 1:
                raise ArgumentError(name, getattr(self, name), "at least 1 record a party")
        if self.features < 1:
            raise ArgumentError("features", self.features, "at least 1")

    @property
    def parties(self) -> int:
        """Number of parties."""
        return len(self.train)

    @classmethod
    def of(cls, parts: Sequence[Split]) -> "Sizes":
        """Returns the sizes of each party's records."""
        return cls(
            train=tuple(len(part.train_x) for part in parts),
            test=tuple(len(part.test_x) for part in parts),
            features=parts[0].train_x.shape[1],
        )

    def facts(self) -> dict[str, int]:
        """Returns the sizes by name, of every party."""
        facts: dict[str, int] = {}
        for rank, (train, test) in enumerate(zip(self.train, self.test, strict=True)):
            facts |= _facts(rank, train, test, self.features)
        return facts


def _facts(rank: int, train: int, test: int, features: int) -> dict[str, int]:
    return {
        f"training records of party {rank}": train,
        f"held-out records of party {rank}": test,
        "features": features,
    }


def load(name: str, data_dir: Path | None, seed: int) -> Split:
    """Returns a data set by name, every row centred and scaled to Euclidean norm 1.

    Args:
        name: "digits" (scikit-learn's 1,797 embedded 8x8 digits; a seeded fifth is held out) or
            "mnist" (the four idx files, with their own test split).
        data_dir: folder of the mnist files.
        seed: of the shuffling; public.

    Raises:
        ArgumentError: an unknown name, or files that are missing or damaged.
    """
    if name == "digits":
        return _digits(seed)
    if name == "mnist":
        return _mnist(data_dir, seed)
    raise ArgumentError("data", name, "'digits' or 'mnist'")


def _digits(seed: int) -> Split:
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(x))
    cut = round(TEST_SHARE * len(x))
    x, y = standard_rows(x[order]), y[order].astype(np.int64)
    return Split(train_x=x[cut:], train_y=y[cut:], test_x=x[:cut], test_y=y[:cut])


def _mnist(folder: Path | None, seed: int) -> Split:
    if folder is None:
        raise ArgumentError("data_dir", None, "the folder of the four MNIST idx files")
    parts = {}
    for part, (images, labels) in MNIST_FILES.items():
        x, y = _read_idx(folder / images, 3), _read_idx(folder / labels, 1)
        if len(x) != len(y):
            raise ArgumentError("data_dir", str(folder), "images and labels of equal number")
        parts[part] = standard_rows(x.reshape(len(x), -1).astype(np.float64)), y.astype(np.int64)
    order = np.random.default_rng(seed).permutation(len(parts["train"][0]))
    train_x, train_y = parts["train"]
    return Split(
        train_x=train_x[order],
        train_y=train_y[order],
        test_x=parts["test"][0],
        test_y=parts["test"][1],
    )


def _read_idx(path: Path, dimensions: int) -> npt.NDArray[np.uint8]:
    if not path.is_file():
        raise ArgumentError("data_dir", str(path.parent), f"a folder that holds {path.name}")
    damaged = ArgumentError("data_dir", path.name, "an undamaged idx file", "Download it again.")
    header = 4 * (1 + dimensions)
    try:
        raw = gzip.decompress(path.read_bytes())
        magic, *shape = struct.unpack_from(f">{1 + dimensions}I", raw)
    except (OSError, EOFError, zlib.error, struct.error) as error:
        raise damaged from error
    if magic != IDX_MAGIC[dimensions] or len(raw) != header + math.prod(shape):
        raise damaged
    return np.frombuffer(raw, dtype=np.uint8, offset=header).reshape(shape)


def standard_rows(x: npt.NDArray[np.generic]) -> Reals:
    """Returns each row less its own mean, scaled to Euclidean norm 1; constant rows become zero.

    A function of the row alone, so that it costs no privacy.
    """
    reals = x.astype(np.float64)
    reals -= reals.mean(axis=1, keepdims=True)
    norms = np.linalg.norm(reals, axis=1, keepdims=True)
    return reals / np.where(norms > 0.0, norms, 1.0)


def split_among(split: Split, parties: int) -> list[Split]:
    """Returns one share of the records for each party, of sizes that differ by one at most.

    Raises:
        ArgumentError: fewer records than parties.
    """
    for name, count in (("training", len(split.train_x)), ("held-out", len(split.test_x))):
        if count < parties:
            raise ArgumentError(
                "parties", parties, f"at most {count}, the number of {name} records"
            )
    return [
        Split(
            train_x=split.train_x[rank::parties],
            train_y=split.train_y[rank::parties],
            test_x=split.test_x[rank::parties],
            test_y=split.test_y[rank::parties],
        )
        for rank in range(parties)
    ]


def write_party_files(split: Split, parties: int, folder: Path) -> list[Path]:
    """Writes ``party-R.npz`` for each party, readable by the owner only, and returns the paths."""
    return [
        write_private(folder / f"party-{rank}.npz", **vars(part))
        for rank, part in enumerate(split_among(split, parties))
    ]


def write_private(path: Path, **arrays: npt.ArrayLike) -> Path:
    """Writes an .npz file that its owner alone may read, in a folder likewise if it is new."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.touch(mode=0o600)
    path.chmod(0o600)
    with path.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]
    return path


def read_party_file(path: Path) -> Split:
    """Returns the records in a file with arrays train_x, train_y, test_x and test_y.

    Raises:
        ArgumentError: the file or an array is missing, is not numeric, or they do not belong
            together.
    """
    if not path.is_file():
        raise ArgumentError("records", str(path), "an existing .npz file")
    names = list(Split.__dataclass_fields__)
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            split = Split(**{name: arrays[name] for name in names})
    except (KeyError, TypeError, ValueError, OSError, EOFError, BadZipFile, zlib.error) as error:
        allowed = f"an .npz file with arrays {', '.join(names)}"
        raise ArgumentError("records", str(path), allowed) from error
    shapes = {name: array.shape for name, array in vars(split).items()}
    belong = (
        all(array.dtype.kind in "biuf" for array in vars(split).values())
        and len(split.train_x.shape) == len(split.test_x.shape) == 2
        and split.train_x.shape[1] == split.test_x.shape[1]
        and split.train_x.shape[:1] == split.train_y.shape[:1]
        and split.test_x.shape[:1] == split.test_y.shape[:1]
    )
    if not belong:
        raise ArgumentError(
            "records",
            str(path),
            "numeric, with as many labels as rows and equally wide rows for training and testing",
            f"Its shapes are {shapes}.",
        )
    return split
