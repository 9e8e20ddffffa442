"""A public file of weights to start from: known by its content, which all parties must have.

Each host keeps a copy under the digest of the weights, so that a run's settings, which are compared
and kept in files, say which weights these are, and not where somebody has them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from extensions import durable
from extensions.errors import ArgumentError
from extensions.machine import cache_home
from extensions.ring.fixed_point import Reals

PREFIX = "file:"
_NAME = re.compile(r"(weight|bias)_\d{1,3}")


def is_file(init: str | None) -> bool:
    """Whether training starts from a file's weights."""
    return init is not None and re.fullmatch(PREFIX + "[0-9a-f]{64}", init) is not None


def kept(text: str) -> str:
    """Returns ``file:DIGEST`` for the path of an .npz file, and any other text as it is.

    Its arrays ``weight_i`` and ``bias_i`` are kept in the user's cache.

    Raises:
        ArgumentError: a file that holds no such arrays of finite numbers.
    """
    path = Path(text)
    if path.suffix != ".npz":
        return text
    arrays = _arrays(path)
    init = PREFIX + _digest(arrays)
    copy = _place(init)
    if not copy.exists():
        copy.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with durable.write(copy) as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
    return init


@lru_cache(maxsize=4)
def read(init: str, shapes: tuple[tuple[int, int], ...]) -> Sequence[tuple[Reals, Reals]]:
    """Returns the weights and biases that `kept` has kept.

    Args:
        init: what it returned.
        shapes: of the model's weights, whose biases have as many values as rows.

    Raises:
        ArgumentError: this host has no such copy, or they are of another model.
    """
    path = _place(init)
    if not path.exists():
        advice = "Give the file itself on every host: --init PATH."
        raise ArgumentError("init", init, "weights that this host has been given", advice)
    arrays = _arrays(path)
    if PREFIX + _digest(arrays) != init:
        raise ArgumentError("init", init, f"those in {path}, which was altered", "Remove it.")
    given = [arrays[f"weight_{i}"].shape for i in range(len(arrays) // 2)]
    biases = [arrays[f"bias_{i}"].shape for i in range(len(given))]
    if tuple(given) != shapes or biases != [shape[:1] for shape in given]:
        allowed = f"weights of the model's layers, {list(shapes)}"
        raise ArgumentError("init", f"a file of weights of shapes {given}", allowed)
    return [(arrays[f"weight_{i}"], arrays[f"bias_{i}"]) for i in range(len(given))]


def _arrays(path: Path) -> dict[str, Reals]:
    allowed = "an .npz file of weight_0, bias_0, ..., such as `pea train --save` writes"
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as held:
            found = {name: held[name] for name in held.files if _NAME.fullmatch(name)}
        arrays = {name: np.asarray(each, dtype=np.float64) for name, each in found.items()}
    except Exception as error:
        raise ArgumentError("init", str(path), allowed) from error
    layers = range(len(arrays) // 2)
    names = {f"{kind}_{i}" for i in layers for kind in ("weight", "bias")}
    reals = all(each.dtype.kind == "f" and np.isfinite(each).all() for each in found.values())
    if not arrays or set(arrays) != names or not reals:
        raise ArgumentError("init", str(path), allowed, "Its values must be finite real numbers.")
    return arrays


def _digest(arrays: Mapping[str, Any]) -> str:
    """Returns what names weights: of their names, shapes and values in order."""
    total = hashlib.sha256()
    for name in sorted(arrays):
        total.update(f"{name} {arrays[name].shape}\n".encode())
        total.update(np.ascontiguousarray(arrays[name], dtype="<f8").tobytes())
    return total.hexdigest()


def _place(init: str) -> Path:
    return cache_home() / "starts" / f"{init.removeprefix(PREFIX)}.npz"
