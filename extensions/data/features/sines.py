"""Sines of random projections, with which a linear model learns what a kernel method would."""

import re

import numpy as np
import numpy.typing as npt

from extensions.data.features.extractor import Features
from extensions.errors import ArgumentError

SEED = 20230521
MAX_WIDTH = 2**14


def width_in(name: str, argument: str) -> int:
    """Returns the number of features that ``NAME:WIDTH`` asks for."""
    if not re.fullmatch(r"[1-9]\d{0,4}", argument) or int(argument) > MAX_WIDTH:
        allowed = f"{name}, or {name}:WIDTH with 1..{MAX_WIDTH} features"
        raise ArgumentError("features", f"{name}:{argument}", allowed, code="range")
    return int(argument)


class RandomSines:
    """x -> sin(scale W x) of a public matrix W of independent standard Gaussians.

    For rows x and z the expected product of two such features is that of the kernel (exp(-s^2 |x -
    z|^2 / 2) - exp(-s^2 |x + z|^2 / 2)) / 2, s the scale: for rows of norm 1 the standard deviation
    of the sines' arguments. All features have a mean of zero over W, so that none of the bounded
    norm is spent on what all records share.

    Source:
        Rahimi and Recht, NIPS 2007 (random Fourier features).

    Deviation:
        sines alone, without the cosines, which are nearly the same for all records.
    """

    def __init__(self, inputs: int, width: int, scale: float) -> None:
        # The stream of this older generator is frozen: all parties have the same matrix.
        draws = np.random.RandomState(SEED)
        self._matrix = (scale * draws.standard_normal((inputs, width))).astype(np.float32)

    def __call__(self, x: npt.NDArray[np.floating]) -> Features:
        """Returns the features, (records, width), of rows (records, inputs)."""
        return np.asarray(np.sin(x.astype(np.float32) @ self._matrix), dtype=np.float32)
