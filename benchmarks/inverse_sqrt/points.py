"""Where 1/sqrt(x) is taken: as many points in every decade of 0.01..1e5, rounded to fixed point."""

import numpy as np
from numpy.typing import NDArray

LOW, HIGH, FAR = 0.01, 300.0, 1e5
"""The paper's range is LOW..HIGH; beyond it, to FAR, the range is reported by itself."""


def points(frac_bits: int, count: int) -> NDArray[np.float64]:
    """Returns `count` increasing values that fixed point holds exactly; some may be equal."""
    scale = 2.0**frac_bits
    values: NDArray[np.float64] = np.rint(np.geomspace(LOW, FAR, count) * scale) / scale
    return values


def batch_of(frac_bits: int, size: int) -> NDArray[np.float64]:
    """Returns `size` values from LOW..HIGH, the input of a timed call."""
    scale = 2.0**frac_bits
    values: NDArray[np.float64] = np.rint(np.linspace(LOW, HIGH, size) * scale) / scale
    return values
