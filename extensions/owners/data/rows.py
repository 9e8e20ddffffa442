"""Rows scaled to a public bound of their norm, each by a function of itself alone."""

import numpy as np
import numpy.typing as npt

from extensions.ring.fixed_point import Reals


def standard_rows(x: npt.NDArray[np.generic], bound: float = 1.0) -> Reals:
    """Returns each row less its own mean, scaled to Euclidean norm `bound`; constant rows are zero.

    A function of the row alone, so that it costs no privacy.
    """
    reals = x.astype(np.float64)
    reals -= reals.mean(axis=1, keepdims=True)
    norms = np.linalg.norm(reals, axis=1, keepdims=True)
    return reals / np.where(norms > 0.0, norms / bound, 1.0)


def bounded_rows(x: npt.NDArray[np.generic], bound: float = 1.0) -> Reals:
    """Returns each row with its norm cut to `bound` if it is longer, in its own direction.

    A function of the row alone, so that it costs no privacy.
    """
    reals = x.astype(np.float64)
    norms = np.linalg.norm(reals, axis=1, keepdims=True)
    bounded: Reals = reals / np.maximum(norms / bound, 1.0)
    return bounded
