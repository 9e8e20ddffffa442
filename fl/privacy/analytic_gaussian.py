"""The least Gaussian noise of one (epsilon, delta)-private release, at every epsilon."""

import math

from extensions.privacy.accounting import check_real

_ROUNDING = 1e-13
"""Relative error of the tail probabilities below, at most; it is taken off delta."""


def gaussian_delta(epsilon: float, noise_multiplier: float) -> float:
    """Returns the least delta at which Gaussian noise is (epsilon, delta)-private.

    Rounded up: delta = P(N > epsilon s - 1/(2s)) - e^epsilon P(N > epsilon s + 1/(2s)).

    Args:
        epsilon: of the release.
        noise_multiplier: s, standard deviation over the sensitivity in L2.

    Source:
        Balle and Wang, ICML 2018, Theorem 8.
    """
    from scipy.special import log_ndtr

    half, shift = 1 / (2 * noise_multiplier), epsilon * noise_multiplier
    gained = math.exp(log_ndtr(half - shift))
    lost = math.exp(epsilon + log_ndtr(-half - shift))
    return max(0.0, gained - lost) + _ROUNDING * gained


def analytic_noise(epsilon: float, delta: float) -> float:
    """Returns the least noise multiplier of one (epsilon, delta)-private Gaussian release.

    The usual sqrt(2 ln(1.25 / delta)) / epsilon holds for epsilon < 1 only, where it is too much;
    further up it is too little, and the release is not private as stated.

    Guarantees:
        `gaussian_delta(epsilon, result) <= delta`, and the result is within 1e-9 (relative) of the
        least.

    Raises:
        ArgumentError: epsilon not above 0, or delta not between 0 and 1.

    Source:
        Balle and Wang, ICML 2018, Algorithm 1; here by bisection.
    """
    epsilon, delta = check_real("epsilon", epsilon), check_real("delta", delta)
    low = high = 1.0
    while gaussian_delta(epsilon, high) > delta:
        high *= 2.0
    while gaussian_delta(epsilon, low) <= delta:
        low /= 2.0
    while high / low > 1 + 1e-9:
        middle = math.sqrt(low * high)
        if gaussian_delta(epsilon, middle) <= delta:
            high = middle
        else:
            low = middle
    return high
