"""Shapes of columns by empirical Bayes, of noisy sums alone: post-processing, which costs nothing.

With z a column's sums, to which its present shape has been added back, H their slope in the
coefficients, and s^2 their noise's variance, known to all,

    z = H theta + noise,  noise ~ N(0, d H + s^2 I),  theta ~ N(0, tau^2 L),

where d H is what sampling of records adds. The posterior mean is G z, with the smoother

    G = tau^2 L H (tau^2 H L H + d H + s^2 I)^-1.

tau is one of `SCALES`. Their weights are those of the marginal likelihood of z, with a prior that
all columns share, fitted by expectation and maximisation: columns that tell nothing are shrunk to
nothing, and nobody chooses how much.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from extensions.ring.fixed_point import Reals

SCALES = (0.03, 0.1, 0.2, 0.4, 0.8, 1.6)
"""tau, in log-odds, or in deviations of a target that is a number."""
_VARIANCES = np.array(SCALES) ** 2
_TINY = 1e-6
_LEAST_WEIGHT = 0.01
_ITERATIONS = 20


@dataclass(frozen=True)
class Evidence:
    """What is known of one column's shape.

    Attributes:
        slope: H, (rows, rows).
        prior: L, (rows,).
        sums: z, (rows,).
        variance: s^2 of these sums.
        dispersion: d.
    """

    slope: Reals
    prior: Reals
    sums: Reals
    variance: float
    dispersion: float

    def log_likelihood(self) -> Reals:
        """Returns that of the sums for each of `SCALES`, but for a constant."""
        signal, noise = _covariances(self, self.variance)
        values, vectors = np.linalg.eigh(noise)
        whitened = vectors / np.sqrt(values)
        values, vectors = np.linalg.eigh(whitened.T @ signal @ whitened)
        squares = (vectors.T @ (whitened.T @ self.sums)) ** 2
        spread = 1.0 + _VARIANCES[:, None] * np.maximum(values, 0.0)
        likelihood: Reals = -0.5 * (np.log(spread) + squares / spread).sum(axis=1)
        return likelihood

    def smoother(self, weights: Reals, variance: float) -> Reals:
        """Returns the mean of G with these weights of `SCALES`, for noise of another variance."""
        signal, noise = _covariances(self, variance)
        used = [(w, tau2) for w, tau2 in zip(weights, _VARIANCES, strict=True) if w > _LEAST_WEIGHT]
        reach = self.prior[:, None] * self.slope
        total = sum(w * tau2 * np.linalg.inv(tau2 * signal + noise) for w, tau2 in used)
        mean: Reals = reach @ total / sum(w for w, _ in used)
        return mean


def _covariances(evidence: Evidence, variance: float) -> tuple[Reals, Reals]:
    """Returns H L H and d H + s^2 I."""
    slope = evidence.slope
    noise = evidence.dispersion * slope + (variance + _TINY) * np.eye(len(slope))
    return slope @ (evidence.prior[:, None] * slope), noise


def posteriors(likelihoods: Sequence[Reals], prior: Reals) -> tuple[list[Reals], Reals]:
    """Returns the weights of `SCALES` for each column, and the prior that fits all of them.

    Args:
        likelihoods: logarithms, for each column.
        prior: to start from.
    """
    logs = np.stack(likelihoods)
    powers = np.exp(logs - logs.max(axis=1, keepdims=True))
    for _ in range(_ITERATIONS):
        weights = powers * prior
        weights /= weights.sum(axis=1, keepdims=True)
        prior = (weights.sum(axis=0) + 1.0) / (len(weights) + len(SCALES))
    return [*weights], prior
