"""Many releases with delta 0 together, at a delta above 0."""

import math

import numpy as np

_ROUNDING = 1e-7
"""Relative error of the probabilities below, which is taken off delta, and of the result."""


def composed_epsilon(epsilon: float, releases: int, delta: float) -> float:
    """Returns the epsilon, at this delta, of releases each of which has delta 0.

    Each release tells at most as much as one bit that is right with probability
    e^epsilon / (1 + e^epsilon), whatever the mechanism and whatever it learnt of earlier ones; the
    sum of the losses of such bits is binomial.

    Guarantees:
        An upper bound, within 1e-6 (relative) of the least that holds for all such mechanisms; for
        at most 10^7 releases.

    Args:
        epsilon: of one release, above 0.
        releases: how many, at least 1.
        delta: of all of them together, above 0.

    Source:
        Kairouz, Oh and Viswanath, ICML 2015, Theorem 3.3.
    """
    from scipy.special import gammaln

    right = np.arange(releases + 1.0)
    wrong = releases - right
    logs = gammaln(releases + 1) - gammaln(right + 1) - gammaln(wrong + 1)
    logs -= releases * math.log1p(math.exp(-epsilon)) + wrong * epsilon
    losses = epsilon * (right - wrong)

    def exceeds(bound: float) -> bool:
        above = losses > bound
        spent = -np.expm1(bound - losses[above]) * np.exp(logs[above])
        return float(np.sum(spent)) > delta * (1 - _ROUNDING)

    low, high = 0.0, releases * epsilon
    while high - low > _ROUNDING * high:
        middle = (low + high) / 2
        if exceeds(middle):
            low = middle
        else:
            high = middle
    return high
