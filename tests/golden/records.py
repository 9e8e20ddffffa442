"""Small records in sixteenths, the same on every machine: what golden runs are trained on."""

from typing import Any

import numpy as np
import numpy.typing as npt

from extensions.data.datasets import Split

TRAIN, HELD_OUT = (40, 32, 24), (12, 10, 8)
"""Numbers of records of each of three owners."""
_NUMBERS = (0.0, 0.25, 0.5, 0.75, 1.0)


def parts(kind: str) -> list[Split]:
    """Returns each owner's records.

    Args:
        kind: classes (three of them), two, numbers (targets in 0..1), persons (of at most three
            records, some fewer), images (16 x 16, three classes), or unequal (an owner of nine
            records, one of none held out).
    """
    sizes = ((40, 9, 24), (12, 0, 8)) if kind == "unequal" else (TRAIN, HELD_OUT)
    return [_part(kind, rank, *own) for rank, own in enumerate(zip(*sizes, strict=True))]


def _part(kind: str, rank: int, train: int, held_out: int) -> Split:
    images = kind == "images"
    train, held_out = (8, 4) if images else (train, held_out)
    words = np.random.Generator(np.random.PCG64(1000 + rank))
    x = words.integers(-6, 7, (train + held_out, 256 if images else 6)) / (256 if images else 16)
    y = _labels(kind, np.rint(256 * x[:, :6]).astype(np.int64))
    units = np.arange(train) // 3 if kind != "unequal" else None
    return Split(
        train_x=x[:train],
        train_y=y[:train],
        test_x=x[train:],
        test_y=y[train:],
        train_units=None if kind != "persons" else units,
    )


def _labels(kind: str, x: npt.NDArray[np.int64]) -> Any:
    """What a linear rule of whole numbers says of each row."""
    rule = np.array([[2, -1, 0, 1, 0, 1], [-1, 2, 1, 0, 1, 0], [0, 0, -1, 1, 2, -1]])
    scores = x @ rule.T
    if kind == "numbers":
        return np.array(_NUMBERS)[np.searchsorted([-200, -50, 50, 200], scores[:, 0])]
    return (scores[:, :2] if kind == "two" else scores).argmax(axis=1)
