"""Discrete Gaussians from tables: for hosts that must draw in a graph, without a loop or a float.

A wide one is a sum of digits, sum_i BASE^i x_i, whose x_i are narrow ones; each x_i is looked up in
a public table of cumulative probabilities with 126 uniform bits.
"""

import functools
import math
from dataclasses import dataclass
from decimal import Decimal, localcontext

import numpy as np

from extensions.errors import ArgumentError
from extensions.privacy.discrete import check_noise_scale
from extensions.ring.fixed_point import Integers

BASE = 64
LOW_DIGIT_SCALE = 128.0
"""Standard deviation of all digits but the highest."""

WORD_BITS = 63
CUT = 2.0**-54
"""Bound of the probability that a digit of a draw lies beyond its table, to be added to delta."""

MAX_DIGITS = 10
"""No draw that a ring can bear has more digits."""

_NARROWEST, _WIDEST = 0.125, 256.0
_CUT_BITS = 62
_PRECISION = 60


@dataclass(frozen=True)
class Digit:
    """One summand `weight` * x.

    With u, v uniform in [0, 2^63), x = `lowest` + the number of table entries (h, l) for which
    h < u, or h = u and l <= v. `high` increases strictly, so that at most one entry has h = u.

    Attributes:
        weight: a power of BASE.
        lowest: the smallest x.
        high: upper 63 bits of the cumulative probabilities, of `lowest` first.
        low: lower 63 bits.
    """

    weight: int
    lowest: int
    high: Integers
    low: Integers

    def look_up(self, u: Integers, v: Integers) -> Integers:
        """Returns x for each pair of uniform words in [0, 2^63)."""
        place = np.searchsorted(self.high, u, side="left")
        near = np.minimum(place, len(self.high) - 1)
        tie = (place < len(self.high)) & (self.high[near] == u) & (self.low[near] <= v)
        value: Integers = place + tie + self.lowest
        return value


def failure_bound(draws: int) -> float:
    """Returns a bound of the probability that any of so many draws lies beyond a table.

    It is how far their joint distribution may be, in total variation, from the ideal one, and
    belongs to delta (`extensions.privacy.ledger`, overflow_probability).
    """
    return draws * MAX_DIGITS * CUT


@functools.lru_cache(maxsize=64)
def digits(scale: float) -> tuple[Digit, ...]:
    """Returns the digits whose weighted sum is a discrete Gaussian of that standard deviation.

    Args:
        scale: sigma in ring units, at least 1/8: narrower ones are zero but for 2^-46.

    Guarantees:
        P(k) is proportional to exp(-k^2 / (2 sigma^2)) up to a factor within 1 +- 2^-59, but for an
        event of probability below `CUT`, in which a digit would have been beyond the end of its
        table.

    The reason: with S the sum of lower digits, of standard deviation s, and x the next one, of t,
    the probability of S + k x = y is that of the wide Gaussian times the sum over a shifted grid of
    a Gaussian of standard deviation r = s t / sqrt(s^2 + k^2 t^2). Here r >= 1.73, and so that sum
    is the same for every shift up to a factor within 1 +- 3 exp(-2 pi^2 r^2), which is 2^-83.

    Source:
        Micciancio and Walter, "Gaussian sampling over the integers" (2017), section 4.1.

    Raises:
        ArgumentError: a scale below 1/8, or too wide for the ring.
    """
    check_noise_scale(scale)
    if scale < _NARROWEST:
        raise ArgumentError("scale", scale, f"at least {_NARROWEST}")
    level, below = 0, 0.0
    while (top := math.sqrt(scale**2 - below) / BASE**level) > _WIDEST:
        below += (LOW_DIGIT_SCALE * BASE**level) ** 2
        level += 1
    low = [Digit(BASE**i, *_table(LOW_DIGIT_SCALE)) for i in range(level)]
    return (*low, Digit(BASE**level, *_table(top)))


@functools.lru_cache(maxsize=64)
def _table(scale: float) -> tuple[int, Integers, Integers]:
    """Returns the smallest value, and the words of P(X <= x) for all x but the largest."""
    with localcontext() as context:
        context.prec = _PRECISION
        rate = -1 / (2 * Decimal(scale) ** 2)
        weights = [(rate * x * x).exp() for x in range(math.ceil(12 * scale) + 2)]
        total = 2 * sum(weights) - weights[0]
        cut = total / 2**_CUT_BITS
        largest = max(x for x, weight in enumerate(weights) if weight >= cut)
        kept = [weights[abs(x)] for x in range(-largest, largest + 1)]
        mass, below, high, low = sum(kept), Decimal(0), [], []
        for weight in kept[:-1]:
            below += weight
            word = int(below / mass * 4**WORD_BITS)
            high.append(word >> WORD_BITS)
            low.append(word & (2**WORD_BITS - 1))
    return -largest, np.array(high, dtype=np.int64), np.array(low, dtype=np.int64)
