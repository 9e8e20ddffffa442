"""One-run auditing: what epsilon is at least, when so many of so many guesses are right."""

import math
from collections.abc import Sequence

import numpy as np

from extensions.errors import ArgumentError

FRACTIONS = (1.0, 0.5, 0.2, 0.1, 0.05)
"""Parts of the secrets that are guessed, the clearest ones; fixed before anything is seen."""

_LARGEST = 50.0


def p_value(*, secrets: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """Returns a bound of the probability of so many right guesses or more.

    A mechanism takes `secrets` independent fair coins, each of which decides over one record, and
    is (epsilon, delta)-differentially private for every one of them. From its result alone a fixed
    number of coins is guessed; the others are abstained from.

    Source:
        Steinke, Nasr and Jagielski, NeurIPS 2023, Theorem 5.2 and Corollary 5.4: of m secrets, r
        guesses and v that are right, P(right >= v) is at most beta + 2 m delta alpha, where W is
        binomial(r, 1 / (1 + exp(-epsilon))), beta is P(W >= v), and alpha the largest
        P(v > W >= v - i) / i over i = 1..m.

    Raises:
        ArgumentError: more right guesses than guesses, or more guesses than secrets.
    """
    from scipy.stats import binom

    if not 0 <= right <= guesses <= secrets:
        counts = (right, guesses, secrets)
        rule = "in ascending order, none below 0"
        raise ArgumentError("right, guesses, secrets", counts, rule, code="range")
    law = binom(guesses, 1 / (1 + math.exp(-epsilon)))
    beta = float(law.sf(right - 1))
    # Beyond i = v the probability grows no more.
    below = np.cumsum(law.pmf(np.arange(right - 1, -1, -1)))
    alpha = float((below / np.arange(1, right + 1)).max()) if right else 0.0
    return min(1.0, beta + 2 * secrets * delta * alpha)


def least_epsilon(
    *, secrets: int, guesses: int, right: int, delta: float, significance: float
) -> float:
    """Returns an epsilon below which no mechanism is with that delta, but for a false alarm.

    Guarantees:
        If the mechanism is (epsilon, delta)-differentially private, the result is above epsilon
        with at most the probability `significance`.
    """

    def refuted(epsilon: float) -> bool:
        counts = {"secrets": secrets, "guesses": guesses, "right": right}
        return p_value(**counts, epsilon=epsilon, delta=delta) <= significance

    low, high = 0.0, _LARGEST
    if not refuted(low):
        return 0.0
    while high - low > 1e-4:
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def guess(scores: Sequence[float], coins: Sequence[int], fraction: float) -> tuple[int, int]:
    """Returns how many coins are guessed, and how many of the guesses are right.

    The highest scores are guessed to be of coins 1, as many of the lowest to be of coins -1.
    At most that fraction of the coins is guessed, and at least one each way.
    """
    each = max(1, int(fraction * len(scores)) // 2)
    order = np.argsort(scores)
    signs = np.asarray(coins)[order]
    return 2 * each, int((signs[-each:] == 1).sum() + (signs[:each] == -1).sum())


def audit(
    scores: Sequence[float], coins: Sequence[int], *, delta: float, significance: float
) -> dict[str, float]:
    """Returns the best lower bound of epsilon, and the guesses that it comes from.

    Every fraction of `FRACTIONS` is tried at an equal part of the significance, so that the best of
    them is above a true epsilon with at most the whole of it.
    """
    found: list[dict[str, float]] = []
    for fraction in FRACTIONS:
        guesses, right = guess(scores, coins, fraction)
        bound = least_epsilon(
            secrets=len(scores),
            guesses=guesses,
            right=right,
            delta=delta,
            significance=significance / len(FRACTIONS),
        )
        found.append({"guesses": guesses, "right": right, "epsilon, at least": bound})
    return max(found, key=lambda each: each["epsilon, at least"])
