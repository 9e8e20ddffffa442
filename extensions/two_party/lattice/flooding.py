"""Noise that hides what an answer's own error says about the factor it was multiplied by.

Whoever decrypts W x - s sees, besides that uniform word, the error W e of the ciphertext, in which
he knows e: without further noise a few answers give W. Each coefficient that is sent therefore
takes the sum of three uniform integers below 2^b. Its floor'd continuous counterpart has Fisher
information I = (4 + 0.5622) / 4^b (a quadratic B-spline of width 3 2^b), so that a shift by at most
B changes n coefficients, chosen one after another as their reader likes, by

    total variation <= sqrt(n I) B / 2 <= 1.068 B sqrt(n) / 2^b

(Hellinger's squared distance is at most B^2 I / 8 a coefficient, and adds up). b is the smallest
for which this is at most 2^-40 over all n coefficients of a run. With b = 40 + log2 B alone, as is
usual for one product, it would be 2^-26 over 2^28 of them.

B holds for every W but not for every e: the errors of an honest encryption are sums of signs, so
that by Hoeffding's inequality (J. Amer. Stat. Assoc. 58, 1963) |sum w_i e_i| exceeds
sqrt(21 ln(2) k) |w| with probability at most 2^(1-k). `Flooding.deviations` is that root for the
k at which some coefficient of the run does so with probability 2^-50, a thousandth of the distance,
which 1.07 has room for. The largest error of all, 21 |w|_1, would take four bits more.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from extensions.rules import Whole, check_fields
from extensions.two_party.lattice.residues import (
    ERROR_BOUND,
    Stream,
    Words,
    add,
    of_large,
    of_small,
)

_WORD = 64
_MOST_BITS = 3 * _WORD
_ROOT_OF_INFORMATION = 1.07
"""sqrt(4.5622) / 2 = 1.068, and room for errors beyond their bound."""
_BEYOND = 10
"""Bits by which errors beyond their bound are rarer than the distance."""


@dataclass(frozen=True)
class Flooding:
    """How well a run's answers hide the factors: the statistical distance, and over how many.

    At most `coefficients`, public, are revealed in all products of a run; their joint distance from
    what can be simulated is at most 2^-security.
    """

    coefficients: Annotated[int, Whole(1, 1 << 40, "in 1..2^40, those of a run")] = 1 << 28
    security: Annotated[int, Whole(40, 64, "in 40..64 bits")] = 40

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def deviations(self) -> float:
        """How many times |w| the error sum w_i e_i has at most, but for 2^-(security + 10)."""
        rarer = np.log2(float(self.coefficients)) + self.security + _BEYOND + 1
        return float(np.sqrt(ERROR_BOUND * np.log(2.0) * rarer))

    def bits(self, bound: int) -> int:
        """Returns b for errors of at most `bound` in magnitude."""
        needed = _ROOT_OF_INFORMATION * float(self.coefficients) ** 0.5 * 2.0**self.security
        return int(np.ceil(np.log2(needed) + np.log2(float(bound))))


USUAL = Flooding()
"""For runs of at most 2^28 outputs."""


def largest(bits: int) -> int:
    """Returns the largest magnitude of the noise of `flood(.., bits, ..)`."""
    return 3 << (bits - 1)


def flood(stream: Stream, count: int, bits: int, primes: tuple[int, ...]) -> Words:
    """Returns fresh noise in residues, shape (primes, count), centred, of width 3 2^bits.

    The carry of three uniform fractions (0, 1, 2 with probabilities 1, 4, 1 of 6) makes it the
    floor of a sum of continuous ones. `bits` are in 64..192.
    """
    Whole(_WORD, _MOST_BITS).check("bits", bits)
    layers = -(-bits // _WORD)
    drawn = stream.words(layers, 3, count).copy()
    drawn[-1] >>= np.uint64(_WORD * layers - bits)
    noise = of_large(drawn, largest(bits), primes)
    return add(noise, of_small(_carries(stream, count).view(np.int64), primes), primes)


def _carries(stream: Stream, count: int) -> Words:
    carries = np.empty(0, dtype=np.uint64)
    while carries.size < count:
        drawn = stream.words(count) & np.uint64(7)
        kept = drawn[drawn < 6]
        carries = np.concatenate([carries, (kept > 0).astype(np.uint64) + (kept > 4)])
    return carries[:count]
