"""Opened noise against its exact law, a discrete Gaussian of known width."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from extensions.ring.fixed_point import Integers
from extensions.rules import Between

BINS = 64
LEAST_SCALE = 4.0
"""From here on sums of parties' discrete Gaussians are discrete Gaussians, within 2^-30."""
_SUMMED = 4096.0
"""Up to here probabilities are summed; beyond, the normal's between half integers are as good."""


def at_most(k: Integers, scale: float) -> npt.NDArray[np.float64]:
    """Returns P(X <= k) of the discrete Gaussian with that standard deviation in ring units.

    Raises:
        ArgumentError: a scale below 4.
    """
    Between(LEAST_SCALE).check("scale", scale, "Raise {sigma}.")
    if scale > _SUMMED:
        return np.asarray(stats.norm.cdf((k + 0.5) / scale))
    edge = math.ceil(12 * scale)
    weights = np.exp(-0.5 * (np.arange(-edge, edge + 1) / scale) ** 2)
    below = np.cumsum(weights) / weights.sum()
    return np.where(k < -edge, 0.0, below[np.clip(k + edge, 0, 2 * edge)])


def chi_square(draws: Integers, scale: float) -> float:
    """Returns the p-value of the draws in bins that are nearly equally likely."""
    quantiles = stats.norm.ppf(np.arange(1, BINS) / BINS) * scale
    edges = np.unique(np.floor(quantiles).astype(np.int64))
    probabilities = np.diff(np.concatenate([[0.0], at_most(edges, scale), [1.0]]))
    counts = np.bincount(np.searchsorted(edges, draws), minlength=len(probabilities))
    expected = draws.size * probabilities
    return float(stats.chi2.sf(((counts - expected) ** 2 / expected).sum(), len(edges)))


def summary(draws: Integers, scale: float) -> dict[str, Any]:
    """Returns moments, tails and p-value of integer draws, against standard deviation `scale`."""
    z = draws / scale
    row: dict[str, Any] = {
        "draws": draws.size,
        "mean / sd": float(z.mean()),
        "variance / exact": float((z**2).mean()),
        "excess kurtosis": float(stats.kurtosis(z)),
    }
    for sigmas in (3, 4):
        edge = math.floor(sigmas * scale)
        tail = 2 * float(at_most(np.array([-edge - 1]), scale)[0])
        seen = int((np.abs(draws) > edge).sum())
        row[f"beyond {sigmas} sd (expected)"] = f"{seen} ({draws.size * tail:.1f})"
    row["chi-square p-value"] = chi_square(draws, scale)
    return row
