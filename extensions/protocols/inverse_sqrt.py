"""Protocol 1 in its one-hot form: 1/sqrt(x), never above the true value.

The leading one of x is turned into arithmetic shares z_t, once; the normaliser 2^-(t+1) and the
factor 2^(-exp/2), its parity included, are then public linear combinations of the z_t: local and
exact. What remains is a polynomial in u = x 2^-exp in [0.5, 1).
"""

import functools
import math
from dataclasses import dataclass

from extensions.protocols.polynomial import MINIMAX, OneSided, one_sided
from extensions.ring.fixed_point import SAFE_BITS, check_frac_bits
from extensions.ring.interface import Bits, Ring, Share
from extensions.rules import one_of

DEFAULT_DEGREE = 4
U_BITS, P_BITS, COEFFICIENT_BITS = 22, 22, 16


def leading_one(suffix: Bits) -> Bits:
    """Returns words with only the highest set bit of x left, given suffix_or of its bits; local."""
    return suffix ^ (suffix >> 1)


@dataclass(frozen=True, kw_only=True)
class InverseSqrtPlan:
    """Holds the public constants of one inverse square root.

    Args:
        degree: of the polynomial: 2 (0.64 % below at most), 3 (0.096 %) or 4 (0.015 %). Degree 2
            saves a round; 3 costs what 4 costs.

    Examples:
        >>> from extensions.protocols.inverse_sqrt import InverseSqrtPlan
        >>> plan = InverseSqrtPlan(frac_bits=20, degree=4)
        >>> plan.relative_error < 2e-4
        True
    """

    frac_bits: int
    degree: int = DEFAULT_DEGREE

    def __post_init__(self) -> None:
        check_frac_bits(self.frac_bits)
        one_of(sorted(MINIMAX)).check("degree", self.degree)

    @property
    def live_bits(self) -> int:
        """Inputs of at least 2^live_bits ulp give 0: there 1/sqrt(x) is two ulp or less.

        Beyond 21 fractional bits the ring is too narrow for that: 2^(3f/2 - 31) ulp or less.
        """
        return min(SAFE_BITS, 3 * self.frac_bits - 2)

    @property
    def scale_bits(self) -> int:
        """Fractional bits of 2^(-exp/2): as many as keep its product with p(u) below 2^61."""
        return SAFE_BITS - 1 - P_BITS - math.ceil(self.frac_bits / 2)

    @functools.cached_property
    def fit(self) -> OneSided:
        """The polynomial in u."""
        return one_sided(self.degree, COEFFICIENT_BITS)

    @property
    def lowered_by(self) -> float:
        """How much c_0 is lowered so that no rounding of u, u^2 or p(u) lifts p above u^-1/2."""
        return (self.fit.slope_u + self.fit.slope_w + 1.0) * 2.0**-U_BITS + 2.0**-P_BITS

    @property
    def relative_error(self) -> float:
        """The result is at most this fraction, and three ulp more, below the true value."""
        return self.fit.relative_error(2 * self.lowered_by)


def evaluate(ring: Ring, product: Share, shift: int, plan: InverseSqrtPlan) -> tuple[Share, int]:
    """Returns p(u) with further fractional bits than P_BITS, and how many; 1 or 2 rounds.

    Args:
        product: shares of u with U_BITS + shift fractional bits.
    """
    c1, c2, c3, c4 = plan.fit.padded(4)
    one = 1 << U_BITS
    (u,), (square,) = ring.truncate_and_multiply([(product, shift)], [(0, 0)])
    if plan.degree == 2:
        tail = square * c2
    else:
        items = [(square, U_BITS), (u, 0)]
        (w, _), (ww, wu) = ring.truncate_and_multiply(items, [(0, 0), (0, 1)])
        tail = ww * c4 + wu * c3 + w * (c2 * one)
    bits = COEFFICIENT_BITS + 2 * U_BITS
    constant = math.floor(math.ldexp(plan.fit.constant - plan.lowered_by, bits))
    return ring.add_public(tail + u * (c1 * one), constant), bits - P_BITS


def inverse_sqrt(ring: Ring, x: Share, plan: InverseSqrtPlan) -> Share:
    """Returns 1/sqrt(x) or slightly less, guaranteed in every element.

    Args:
        x: shares of ring integers with `plan.frac_bits` fractional bits, any shape.

    Guarantees:
        With X = x 2^f the ring integer and y the result, for every rounding a host may choose: (1 -
        relative_error) / sqrt(x) - 3 ulp <= y <= 1 / sqrt(x).

    Edge cases:
        ============================  ==========================================
        x                             result
        ============================  ==========================================
        zero or negative              exactly 0
        1 ulp <= x, X < 2^live_bits   as guaranteed
        X >= 2^live_bits              exactly 0 (see `live_bits`)
        ============================  ==========================================

    Cost:
        The rounds of one bit decomposition, one suffix-or and one conversion of `live_bits` bits,
        those of a product and of a truncation, and of truncated products
        (`Ring.truncate_and_multiply`) two (degree 2) or three.

    Source:
        Ruan et al., S&P 2023, Protocol 1.

    Deviation:
        lines 6-15 (exponent, parity, second decomposition, selection) are public linear
        combinations of the one-hot bits, and the fit is a one-sided minimax polynomial.

    Examples:
        >>> from extensions.protocols.inverse_sqrt import InverseSqrtPlan, inverse_sqrt
        >>> from extensions.ring.clear import ClearRing
        >>> from extensions.ring.fixed_point import decode, encode
        >>> ring, x = ClearRing(frac_bits=20), encode([0.25, 4.0], 20)
        >>> y = inverse_sqrt(ring, x, InverseSqrtPlan(frac_bits=20))
        >>> decode(y, 20).round(2)
        array([2. , 0.5])
    """
    f = plan.frac_bits
    window = range(plan.live_bits)
    suffix = ring.suffix_or(ring.bit_decompose(x))
    z = ring.bits_to_arithmetic(leading_one(suffix), window)
    shift = plan.scale_bits + P_BITS - f
    normaliser, scale, margin = ring.linear(
        z,
        [
            [1 << (SAFE_BITS - 1 - t) for t in window],
            [inverse_root_of_power(t + 1 - f, plan.scale_bits) for t in window],
            [1 << shift for _ in window],
        ],
    )
    (product,) = ring.mul([(normaliser, x)])
    p, places = evaluate(ring, product, SAFE_BITS - U_BITS, plan)
    _, (y,) = ring.truncate_and_multiply([(p, places), (scale, 0)], [(0, 1)])
    (result,) = ring.truncate([(y - margin, shift)])
    return result


def inverse_root_of_power(exponent: int, bits: int) -> int:
    """Returns floor(2^(-exponent/2) * 2^bits), exactly."""
    power = 2 * bits - exponent
    return math.isqrt(1 << power) if power >= 0 else 0
