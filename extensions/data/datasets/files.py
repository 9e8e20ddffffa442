"""A party's own .npz file: training and held-out records, readable by their owner alone."""

import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from extensions import durable
from extensions.data.datasets.records import (
    ARRAYS,
    UNITS,
    Kind,
    Split,
    kind_of,
    no_labels,
    unreadable,
    unusable,
)
from extensions.errors import ArgumentError
from extensions.npz import read_npz

Contents = Mapping[str, npt.ArrayLike | None]
"""Arrays of a file by name; what is None is left out."""
_RECIPE = "recipe"


def write_parts(parts: Sequence[Split], folder: Path) -> list[Path]:
    """Writes each part to the ``party-R.npz`` of its rank, and returns the paths."""
    return [write_records(part, folder / f"party-{rank}.npz") for rank, part in enumerate(parts)]


def write_records(part: Split, path: Path) -> Path:
    """Writes one owner's file, readable by the owner only, with how its numbers were made."""
    return write_private(path, **_named(part))


@contextmanager
def in_memory(contents: Sequence[Split | Contents]) -> Iterator[list[Path]]:
    """Context manager with a file for each party, which other processes of this user can read too.

    On Linux they are in memory: no disk has them, and they are gone with this process.
    """
    with ExitStack() as stack:
        if sys.platform != "linux":
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="pea-"))
            paths = [Path(folder, f"party-{rank}.npz") for rank in range(len(contents))]
            for path, each in zip(paths, contents, strict=True):
                write_private(path, **_named(each))
            yield paths
            return
        paths = []
        for rank, each in enumerate(contents):
            file = stack.enter_context(open(os.memfd_create(f"party-{rank}.npz"), "wb"))
            _save(file, _named(each))
            file.flush()
            paths.append(Path(f"/proc/{os.getpid()}/fd/{file.fileno()}"))
        yield paths


def _named(part: Split | Contents) -> Contents:
    if not isinstance(part, Split):
        return part
    recipe = np.array(json.dumps(dict(part.recipe)))
    return {**part.arrays, "classes": part.classes or None, _RECIPE: recipe}


def read_classes(path: Path) -> int | None:
    """Returns the number of classes that an .npz file says; None if it says none."""
    if not path.is_file():
        raise unreadable(str(path), "an existing .npz file")
    try:
        return int(read_npz(path, ["classes"])["classes"])
    except (KeyError, TypeError, ValueError):
        return None  # `read_party_file` says what is wrong


def write_private(path: Path, **arrays: npt.ArrayLike | None) -> Path:
    """Writes an .npz file that its owner alone may read, in a folder likewise if it is new."""
    with durable.write(path) as file:
        _save(file, arrays)
    return path


def _save(file: BinaryIO, arrays: Contents) -> None:
    there = {name: array for name, array in arrays.items() if array is not None}
    np.savez(file, **there)  # type: ignore[arg-type]


def read_party_file(
    path: Path, kinds: Sequence[Kind] = ("table",), *, labelled: bool = True
) -> Split:
    """Returns what is in a file with arrays train_x, train_y, test_x and test_y.

    By default these are features; records before features are taken may be of all `KINDS`. There
    may be none held out. Labels may be those of `no_labels`, and without `labelled` not be there.
    """
    if not path.is_file():
        raise unreadable(str(path), "an existing .npz file")
    try:
        loaded = read_npz(path, (*ARRAYS, UNITS, _RECIPE))
        recipe = dict(json.loads(str(loaded.pop(_RECIPE, "{}"))))
        if not labelled and not {"train_y", "test_y"} & {*loaded}:
            loaded |= {
                f"{kind}_y": no_labels(len(loaded[f"{kind}_x"])) for kind in ("train", "test")
            }
        arrays = {name: loaded[name] for name in ARRAYS} | loaded
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        allowed = f"an .npz file with arrays {', '.join(ARRAYS)}"
        raise unreadable(str(path), allowed) from error
    shapes = {name: array.shape for name, array in arrays.items()}
    kind, *others = {kind_of(arrays["train_x"]), kind_of(arrays["test_x"])}
    if kind is None or others or not _belong(arrays):
        raise ArgumentError(
            "records",
            str(path),
            "numeric, with labels of shape (rows,), equally wide training and test rows, and, if "
            f"there are {UNITS}, a whole number for each row",
            f"Its shapes are {shapes}. A label is the number of its class: y.argmax(axis=1) of "
            "one-hot rows, y.ravel() of a column.",
            code="shape",
        )
    if len(arrays["train_x"]) == 0:
        raise unusable(f"{path}: train_x", "of at least one record")
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            row = int(np.argwhere(~np.isfinite(array))[0][0])
            allowed = "finite"
            advice = "Fill them in by a public rule, or drop the record."
            raise unusable(f"{path}: {name}, row {row}", allowed, advice)
    if kind not in kinds:
        allowed = f"a file of the kind {' or '.join(kinds)}"
        advice = "First turn images and texts into features, with `pea features` or {features}."
        raise ArgumentError("records", f"{path}: {kind}", allowed, advice, code="type")
    if kind == "texts":
        arrays |= {name: arrays[name].astype(object) for name in ("train_x", "test_x")}
    return Split(recipe=recipe, **arrays)  # type: ignore[arg-type]


def _belong(arrays: dict[str, npt.NDArray[Any]]) -> bool:
    train_x, train_y, test_x, test_y = (arrays[name] for name in ARRAYS)
    units = arrays.get(UNITS)  # floats may be several persons' at once
    ends = ((), (0,)) if train_y.ndim == test_y.ndim else ()
    return (
        train_x.shape[1:] == test_x.shape[1:]
        and train_y.shape in [(*train_x.shape[:1], *end) for end in ends]
        and test_y.shape in [(*test_x.shape[:1], *end) for end in ends]
        and all(labels.dtype.kind in "biuf" for labels in (train_y, test_y))
        and (units is None or (units.dtype.kind in "iu" and units.shape == train_x.shape[:1]))
    )
