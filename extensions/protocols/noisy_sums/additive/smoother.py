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

from extensions.protocols.noisy_sums.additive.basis import Basis
from extensions.protocols.noisy_sums.additive.bins import Bins
from extensions.ring.fixed_point import Reals

SCALES = (0.03, 0.1, 0.2, 0.4, 0.8, 1.6)
"""tau, in log-odds, or in deviations of a target that is a number."""
_VARIANCES = np.array(SCALES) ** 2
_TINY = 1e-6
_LEAST_WEIGHT = 0.01
_ITERATIONS = 20


@dataclass
class Shape:
    """One output's shape of one column, and what is known of it.

    Attributes:
        matrix: T, (rows, bins).
        counts: of the bins.
        prior: L, (rows,).
        dispersion: d.
        slope: H, (rows, rows).
        theta: coefficients of the shape.
        mean: z, that of all rounds, and its noise's variance.
        smoother: G.
    """

    matrix: Reals
    counts: Reals
    prior: Reals
    dispersion: float
    slope: Reals
    theta: Reals
    mean: Reals
    smoother: Reals
    variance: float = 0.0

    @classmethod
    def of(cls, bins: Bins, basis: Basis, dispersion: float) -> "Shape":
        """Returns a shape of zeros, whose slope is that of a residual of slope 1."""
        matrix, zeros = basis.reals, np.zeros(len(basis.matrix))
        slope = matrix @ (bins.counts[:, None] * matrix.T)
        return cls(matrix, bins.counts, basis.prior, dispersion, slope, zeros, zeros, slope)

    def values(self) -> Reals:
        """Returns its value for each bin."""
        return self.matrix.T @ self.theta

    def covariances(self, variance: float) -> tuple[Reals, Reals]:
        """Returns H L H and d H + s^2 I."""
        noise = self.dispersion * self.slope + (variance + _TINY) * np.eye(len(self.slope))
        return self.slope @ (self.prior[:, None] * self.slope), noise

    def log_likelihood(self) -> Reals:
        """Returns that of z for each of `SCALES`, but for a constant."""
        signal, noise = self.covariances(self.variance)
        values, vectors = np.linalg.eigh(noise)
        whitened = vectors / np.sqrt(values)
        values, vectors = np.linalg.eigh(whitened.T @ signal @ whitened)
        squares = (vectors.T @ (whitened.T @ self.mean)) ** 2
        spread = 1.0 + _VARIANCES[:, None] * np.maximum(values, 0.0)
        likelihood: Reals = -0.5 * (np.log(spread) + squares / spread).sum(axis=1)
        return likelihood

    def smooth(self, weights: Reals, variance: float) -> None:
        """Makes its smoother the mean of those of `SCALES`, for noise of that variance."""
        signal, noise = self.covariances(variance)
        used = [(w, tau2) for w, tau2 in zip(weights, _VARIANCES, strict=True) if w > _LEAST_WEIGHT]
        total = sum(w * tau2 * np.linalg.inv(tau2 * signal + noise) for w, tau2 in used)
        self.smoother = self.prior[:, None] * self.slope @ total / sum(w for w, _ in used)


def smooth(shapes: Sequence[Shape], prior: Reals, variance: float) -> Reals:
    """Finds all shapes' smoothers, and returns the weights of `SCALES` that fit all of them.

    Args:
        prior: weights to start from.
        variance: of the noise for which shapes are smoothed.
    """
    logs = np.stack([one.log_likelihood() for one in shapes])
    powers = np.exp(logs - logs.max(axis=1, keepdims=True))
    weights = powers
    for _ in range(_ITERATIONS):
        weights = powers * prior
        weights /= weights.sum(axis=1, keepdims=True)
        prior = (weights.sum(axis=0) + 1.0) / (len(weights) + len(SCALES))
    for shape, own in zip(shapes, weights, strict=True):
        shape.smooth(own, variance)
    return prior
