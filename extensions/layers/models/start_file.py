"""A public file of weights to start from: known by its content, which all parties must have.

Each host keeps a copy under the digest of the weights, so that a run's settings, which are compared
and kept in files, say which weights these are, and not where somebody has them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from extensions import durable
from extensions.errors import ArgumentError
from extensions.machine import cache_home
from extensions.npz import read_npz
from extensions.ring.fixed_point import Reals

PREFIX, COUNTED = "file:", "file-chosen-by-counts:"
CHOSEN_BY_COUNTS = ("local-accuracy", "local")
"""Starts that depend on exact counts of held-out records."""
HEADER, OWES = "header", "chosen_by_counts"
"""Array of a saved model that tells of its run, and what it says there of such a start.

Without a header an array of the latter name says so: what checkpoints leave of an opened model.
"""
_NAME = re.compile(r"(weight|bias)_\d{1,3}")


def is_file(init: str | None) -> bool:
    """Whether training starts from a file's weights."""
    return re.fullmatch(f"({PREFIX}|{COUNTED})[0-9a-f]{{64}}", init or "") is not None


def is_chosen_by_counts(init: str | None) -> bool:
    """Whether a start was chosen by exact counts of held-out records, itself or through a file."""
    return init in CHOSEN_BY_COUNTS or (init is not None and init.startswith(COUNTED))


def model_is_chosen_by_counts(header: Mapping[str, Any]) -> bool:
    """Whether the start of a saved model was, and so the model: its noised counts are not private.

    A header of an earlier version does not say it. That model owes also if it was started from a
    file, of which its header knows nothing.
    """
    told = header.get(OWES)
    init = header["run"].get("init")
    return bool(told) if told is not None else is_chosen_by_counts(init) or is_file(init)


def with_digest(text: str) -> str:
    """Returns ``file:DIGEST`` for the path of an .npz file, and any other text as it is.

    Its arrays ``weight_i`` and ``bias_i`` are kept in the user's cache. If it is a saved model that
    `model_is_chosen_by_counts`, `COUNTED` takes the place of ``file:``; weights without a header
    are public.
    """
    path = Path(text)
    if path.suffix != ".npz":
        return text
    arrays, counted = _arrays(path)
    init = (COUNTED if counted else PREFIX) + _digest(arrays)
    copy = _place(init)
    if not copy.exists():
        copy.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with durable.write(copy) as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
    return init


@lru_cache(maxsize=4)
def read(init: str, shapes: tuple[tuple[int, int], ...]) -> Sequence[tuple[Reals, Reals]]:
    """Returns the weights and biases that `with_digest` has kept."""
    path = _place(init)
    if not path.exists():
        advice = "Copy the file to every host, and name it there."
        allowed = "weights that this host has received"
        raise ArgumentError("init", init, allowed, advice, code="file")
    arrays, _ = _arrays(path)
    if not init.endswith(_digest(arrays)):
        allowed = f"those that {path} was made of; it was altered"
        raise ArgumentError("init", init, allowed, "Remove it.", code="file")
    given = [arrays[f"weight_{i}"].shape for i in range(len(arrays) // 2)]
    biases = [arrays[f"bias_{i}"].shape for i in range(len(given))]
    if tuple(given) != shapes or biases != [shape[:1] for shape in given]:
        allowed = f"weights of the model's layers, {list(shapes)}"
        raise ArgumentError("init", f"those of shapes {given}", allowed, code="shape")
    return [(arrays[f"weight_{i}"], arrays[f"bias_{i}"]) for i in range(len(given))]


def _arrays(path: Path) -> tuple[dict[str, Reals], bool]:
    """The weights and biases of a file, and whether it is a model chosen by exact counts."""
    allowed = "an .npz file of weight_0, bias_0, ..., such as `pea train` saves"
    try:
        held = read_npz(path)
        found = {name: each for name, each in held.items() if _NAME.fullmatch(name)}
        arrays = {name: np.asarray(each, dtype=np.float64) for name, each in found.items()}
        counted = OWES in held or _owes(str(held.get(HEADER, "")))
    except Exception as error:
        raise ArgumentError("init", str(path), allowed, code="file") from error
    layers = range(len(arrays) // 2)
    names = {f"{kind}_{i}" for i in layers for kind in ("weight", "bias")}
    reals = all(each.dtype.kind == "f" and np.isfinite(each).all() for each in found.values())
    if not arrays or set(arrays) != names or not reals:
        advice = "Its values must be finite real numbers."
        raise ArgumentError("init", str(path), allowed, advice, code="file")
    return arrays, counted


def _owes(header: str) -> bool:
    """Whether a text is the header of a model chosen by exact counts."""
    try:
        return model_is_chosen_by_counts(json.loads(header))
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        return False


def _digest(arrays: Mapping[str, Any]) -> str:
    """Returns what names weights: of their names, shapes and values in order."""
    total = hashlib.sha256()
    for name in sorted(arrays):
        total.update(f"{name} {arrays[name].shape}\n".encode())
        total.update(np.ascontiguousarray(arrays[name], dtype="<f8").tobytes())
    return total.hexdigest()


def _place(init: str) -> Path:
    return cache_home() / "starts" / f"{init.rpartition(':')[2]}.npz"
