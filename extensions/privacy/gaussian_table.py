"""Discrete Gaussians from public tables: in a graph, or many at once in NumPy, without a loop.

A wide one is a sum of digits, sum_i BASE^i x_i, whose x_i are narrow ones; each x_i is looked up in
a public table of cumulative probabilities with 126 uniform bits.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from extensions.errors import ArgumentError
from extensions.ring.fixed_point import SAFE_BITS, Integers

TAIL = 40.0
"""No draw leaves TAIL standard deviations but with probability below 2^-1000."""

MOST_SCALE = 2.0**SAFE_BITS / TAIL
"""Ring units, below which the standard deviation of noise stays."""

BASE = 64
LOW_DIGIT_SCALE = 128
"""Standard deviation of all digits but the highest."""

WORD_BITS = 63
UPPER_BITS = 14
LOWER_BITS = WORD_BITS - UPPER_BITS
UNSETTLED = int(np.iinfo(np.int16).min)
CUT = 2.0**-54
"""Bound of the probability that a digit of a draw lies beyond its table."""

MAX_DIGITS = 10
"""No draw that a ring can bear has more digits."""

_NARROWEST, _WIDEST = 0.125, 256
_CUT_BITS = 62
_PRECISION = 60
_SUMMED = 16
"""Standard deviations up to which weights are summed; those beyond are below 2^-180 of them all."""


@dataclass(frozen=True)
class Digit:
    """One summand `weight` * x.

    With u, v uniform in [0, 2^63), x = -`largest` + the number of table entries (h, l) for which
    h < u, or h = u and l <= v. `high` increases strictly, so that at most one entry has h = u.

    Attributes:
        weight: a power of BASE.
        variance: of x before it is cut.
        high: upper 63 bits of the cumulative probabilities of -largest, ..., largest.
        low: lower 63 bits.
        by_upper_bits: by a word's upper bits its x, or `UNSETTLED` where an entry of `high` has the
            same.
    """

    weight: int
    variance: Fraction
    high: Integers
    low: Integers
    by_upper_bits: npt.NDArray[np.int16]

    @property
    def largest(self) -> int:
        """The largest x that is in the table."""
        return len(self.high) // 2

    def look_up(self, u: Integers, draw_v: Callable[[], Integers]) -> Integers:
        """Returns x for each pair of uniform words in [0, 2^63); `largest` + 1 if it is beyond.

        The upper bits of u settle 96 values of 100; entries are searched for the others alone.

        Args:
            draw_v: returns as many more, if some u is in the table. One of a million is with
                probability 2^-32, for tables of 2,000 entries.
        """
        drawn: Integers = self.by_upper_bits[u >> LOWER_BITS].astype(np.int64)
        where = np.flatnonzero(drawn == UNSETTLED)
        words = u[where]
        place = np.searchsorted(self.high, words, side="left")
        near = np.minimum(place, len(self.high) - 1)
        met = (place < len(self.high)) & (self.high[near] == words)
        if met.any():
            place += met & (self.low[near] <= draw_v()[where])
        drawn[where] = place - self.largest
        return drawn


def failure_bound(draws: int) -> float:
    """Returns a bound of the probability that any of so many draws lies beyond a table.

    Where nothing is drawn in its stead, it is how far their joint distribution may be, in total
    variation, from the ideal one, and belongs to delta (`extensions.privacy.ledger`,
    overflow_probability).
    """
    return draws * MAX_DIGITS * CUT


def check_noise_scale(scale: float) -> None:
    """Raises ArgumentError where `scale` (ring units) is no usable standard deviation."""
    if not 0.0 <= scale < MOST_SCALE:
        allowed = f"in [0, {MOST_SCALE:.3g}) ring units"
        advice = "Lower sigma or the fractional bits."
        raise ArgumentError("scale", scale, allowed, advice, code="range")


@functools.lru_cache(maxsize=64)
def digits(scale: float) -> tuple[Digit, ...]:
    """Returns the digits whose weighted sum is a discrete Gaussian of that standard deviation.

    Args:
        scale: sigma in ring units, at least 1/8: narrower ones are zero but for 2^-46.

    Guarantees:
        With every x that lies beyond its table drawn in another way, exactly, P(k) is proportional
        to exp(-k^2 / (2 sigma^2)) for all integers k, up to a factor within 1 +- 2^-58 if sigma is
        2 or more; below, the two distributions are within 2^-120 in total variation. An x lies
        beyond with probability below `CUT` for all digits together.

    The reason: a word of 126 bits is 2^-126 off at most, and nothing in a table, nor all that lies
    beyond one, is less probable than 2^-68. With S the sum of lower digits, of standard deviation
    s, and x the next one, of t, the probability of S + k x = y is that of the wide Gaussian times
    the sum over a shifted grid of a Gaussian of standard deviation r = s t / sqrt(s^2 + k^2 t^2).
    Here r >= 1.73, and so that sum is the same for every shift up to a factor within
    1 +- 3 exp(-2 pi^2 r^2), which is 2^-83.

    Source:
        Micciancio and Walter, "Gaussian sampling over the integers" (2017), section 4.1.
    """
    check_noise_scale(scale)
    if scale < _NARROWEST:
        raise ArgumentError("scale", scale, f"at least {_NARROWEST}", code="range")
    low: list[Digit] = []
    rest = Fraction(scale) ** 2
    while rest > (_WIDEST * BASE ** len(low)) ** 2:
        weight, variance = BASE ** len(low), Fraction(LOW_DIGIT_SCALE**2)
        low.append(Digit(weight, variance, *_table(variance)))
        rest -= weight**2 * variance
    weight = BASE ** len(low)
    return (*low, Digit(weight, rest / weight**2, *_table(rest / weight**2)))


@functools.lru_cache(maxsize=64)
def _table(variance: Fraction) -> tuple[Integers, Integers, npt.NDArray[np.int16]]:
    """Returns the words of P(X <= x) less P(X < -largest), for all x that are not cut.

    Behind them is what their upper bits settle.
    """
    with localcontext() as context:
        context.prec = _PRECISION
        rate = -Decimal(variance.denominator) / Decimal(2 * variance.numerator)
        edge = math.ceil(_SUMMED * math.sqrt(variance)) + 2
        weights = [(rate * x * x).exp() for x in range(edge)]
        total = 2 * sum(weights) - weights[0]
        largest = max(x for x, weight in enumerate(weights) if weight * 2**_CUT_BITS >= total)
        below, words = Decimal(0), []
        for x in range(-largest, largest + 1):
            below += weights[abs(x)]
            words.append(int(below / total * 4**WORD_BITS))
    high = np.array([word >> WORD_BITS for word in words], dtype=np.int64)
    low = np.array([word & (2**WORD_BITS - 1) for word in words], dtype=np.int64)
    begins = np.arange(1 << UPPER_BITS, dtype=np.int64) << LOWER_BITS
    before = np.searchsorted(high, begins, side="left")
    last = np.searchsorted(high, begins + ((1 << LOWER_BITS) - 1), side="right")
    settled = np.where(before == last, before - largest, UNSETTLED)
    return high, low, settled.astype(np.int16)
