"""The clip factor min(1, 1/sqrt(r)), fused: comparison, inverse root and selection in one pass.

With r = ||g||^2 / C^2 the threshold is a power of two, as the octaves of the root begin with: all
are compared with at once, and the selection of Protocol 3 disappears.
"""

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from extensions.errors import ArgumentError
from extensions.protocols.inverse_sqrt import inverse_root_of_power
from extensions.protocols.polynomial import MINIMAX, OneSided, one_sided
from extensions.ring.fixed_point import SAFE_BITS, check_frac_bits
from extensions.ring.interface import Ring, Share

RATIO_BITS = 10
"""Significant bits of the public 1/C^2; rounding it up shrinks the factor by 0.1 % at most."""


@dataclass(frozen=True, kw_only=True)
class ClipPlan:
    """The public constants of one clip factor.

    Args:
        frac_bits: fractional bits f of r and of the factor.
        range_bits: R; r >= 2^R gives factor 0. The default allows norms up to 256 C.
        degree: of the polynomial, 2, 3 or 4; degree 2 saves two rounds.
    """

    frac_bits: int
    range_bits: int = 16
    degree: int = 2

    COEFFICIENT_BITS = 16
    U_BITS = 18

    def __post_init__(self) -> None:
        check_frac_bits(self.frac_bits)
        if self.degree not in MINIMAX:
            raise ArgumentError("degree", self.degree, f"one of {sorted(MINIMAX)}")
        bottom = max(1, self.U_BITS - self.frac_bits)
        top = min(SAFE_BITS - self.U_BITS - self.frac_bits, 2 * self.frac_bits - 4)
        if not bottom <= self.range_bits <= top:
            raise ArgumentError("range_bits", self.range_bits, f"in {bottom}..{top}")
        least = (1 - self.fit.relative_error()) * 2.0 ** (-self.range_bits / 2)
        if least < self.shortfall(self.range_bits):
            raise ArgumentError(
                "range_bits",
                self.range_bits,
                f"smaller at degree {self.degree}, or rounding could turn the factor negative",
                "Lower range_bits or the degree.",
            )

    @property
    def live_bits(self) -> int:
        """Ratios of 2^live_bits ulp or more give factor 0."""
        return self.frac_bits + self.range_bits

    @property
    def scale_bits(self) -> int:
        """Fractional bits h of 2^(-exp/2): s b x and the final sum both stay below 2^61."""
        return min(
            SAFE_BITS - 1 - self.live_bits, SAFE_BITS - 2 - self.U_BITS - self.COEFFICIENT_BITS
        )

    @functools.cached_property
    def fit(self) -> OneSided:
        """The polynomial in u."""
        return one_sided(self.degree, self.COEFFICIENT_BITS)

    def error_bound(self, exponent: int) -> float:
        """Returns how far rounding may lift s p(u) above its value, for r in that octave.

        The public s is rounded down and v = s u is truncated, so that v is off by less than two ulp
        of 2^-h; u is off by less than one of 2^-U_BITS, and so are, from degree 3 on, the truncated
        u^2 (by 2 |u| + 1 such ulp in all) and u v. What is lifted is at most the sum of these
        errors, each times the largest derivative towards it, with |u| <= 1 and |v| <= s. Degree 2:

            |v' (c_1 + c_2 u') - v (c_1 + c_2 u)| < 2 (|c_1| + |c_2|) ulp_v + |c_2| s ulp_u
        """
        c1, c2, c3, c4 = (math.ldexp(abs(c), -self.COEFFICIENT_BITS) for c in self.fit.padded(4))
        ulp_v, ulp_u = math.ldexp(1.0, -self.scale_bits), math.ldexp(1.0, -self.U_BITS)
        s = math.pow(2.0, -exponent / 2)
        if self.degree == 2:
            return 2 * (c1 + c2) * ulp_v + c2 * s * ulp_u
        inner = (c2 + c3 + c4) * (2 * s * ulp_u + 3 * ulp_v)
        return 2 * c1 * ulp_v + inner + s * (c3 + 3 * c4) * ulp_u

    def shortfall(self, exponent: int) -> float:
        """Returns how far below s p(u) the factor may be, for r in that octave."""
        return 2 * self.error_bound(exponent) + 2.0 ** (1 - self.frac_bits)


def clip_factor(ring: Ring, r: Share, plan: ClipPlan) -> Share:
    """Returns min(1, 1/sqrt(r)), never above it.

    Args:
        ring: the host.
        r: shares of squared norms over squared bound, `plan.frac_bits` fractional bits, any shape.
        plan: the public constants.

    Guarantees:
        One-sided for every rounding a host may choose; at most 0.7 % (degree 2) and two ulp below
        with the default range and up to 20 fractional bits, never negative, and in general below by
        at most the fit's relative error and `plan.shortfall`.

    Edge cases:
        =====================  ==============================================
        r                      factor
        =====================  ==============================================
        0 <= r < 1             exactly 1
        1 <= r < 2^R           just below 1/sqrt(r)
        r >= 2^R, or negative  exactly 0: the gradient is dropped
        =====================  ==============================================

        For r of -2^63 + 2^(R + f) ulp or more.

    Cost:
        The rounds of one comparison, with R + 2 thresholds, and 4 (degree 2) or 6 for the
        arithmetic.

    Source:
        Ruan et al., S&P 2023, Protocol 3, lines 9-12, with Protocol 1 inside.
    """
    f, h = plan.frac_bits, plan.scale_bits
    window = range(f, plan.live_bits)
    below = ring.less_than(r, [0, *(1 << t for t in (*window, plan.live_bits))])

    out_bits = plan.COEFFICIENT_BITS + plan.U_BITS + h
    shift, one = out_bits - f, 1 << out_bits
    roots = [inverse_root_of_power(t + 1 - f, h) for t in window]
    pad = plan.live_bits - 1
    normaliser, scaled, constant = ring.linear(
        below,
        [
            _by_octave([0, *(1 << (pad - t) for t in window)]),
            _by_octave([0, *(root << (pad - t) for t, root in zip(window, roots, strict=True))]),
            _by_octave([one, *(_constant(plan, t + 1 - f, out_bits, shift) for t in window)]),
        ],
    )
    bx, sbx = ring.mul([(normaliser, r), (scaled, r)])
    u, v = ring.truncate([(bx, plan.live_bits - plan.U_BITS), (sbx, plan.live_bits)])
    (factor,) = ring.truncate([(_times_polynomial(ring, u, v, plan) + constant, shift)])
    return factor


def _by_octave(values: Sequence[int]) -> list[int]:
    """Returns what the bits [r < t] count, so that they sum to the value of r's own octave.

    Values are of the octaves between thresholds that follow each other, and 0 outside of them.
    """
    ends = [0, *values, 0]
    return [left - right for left, right in itertools.pairwise(ends)]


def _constant(plan: ClipPlan, exponent: int, out_bits: int, shift: int) -> int:
    value = plan.fit.constant * 2.0 ** (-exponent / 2) - plan.error_bound(exponent)
    return math.floor(math.ldexp(value, out_bits)) - (1 << shift)


def _times_polynomial(ring: Ring, u: Share, v: Share, plan: ClipPlan) -> Share:
    """Returns v (c_1 + c_2 u + ...) where v = s u, with all fractional bits kept."""
    c1, c2, c3, c4 = plan.fit.padded(4)
    one = 1 << plan.U_BITS
    if plan.degree == 2:
        (product,) = ring.mul([(v, ring.add_public(u * c2, c1 * one))])
        return product
    uv, uu = ring.mul([(u, v), (u, u)])
    q, w = ring.truncate([(uv, plan.U_BITS), (uu, plan.U_BITS)])
    (product,) = ring.mul([(q, ring.add_public(u * c3 + w * c4, c2 * one))])
    return product + v * (c1 * one)


def inverse_square_up(max_norm: float, *, name: str = "max_norm") -> tuple[int, int]:
    """Returns (K, k) with K / 2^k at least 1 / max_norm^2, by 0.2 % at most, and K < 2^RATIO_BITS.

    Raises:
        ArgumentError: max_norm is not a positive finite number between 2^-16 and 2^16.
    """
    if not 2.0**-16 <= max_norm <= 2.0**16:
        raise ArgumentError(name, max_norm, "between 2^-16 and 2^16", "Rescale the data.")
    ratio = 1 / Fraction(float(max_norm)) ** 2
    denominator_bits = RATIO_BITS - math.frexp(ratio)[1]
    numerator = math.ceil(ratio * Fraction(2) ** denominator_bits)
    while numerator % 2 == 0:
        numerator, denominator_bits = numerator // 2, denominator_bits - 1
    return numerator, denominator_bits


def ratio_up(ring: Ring, squared: Share, bits: int, max_norm: float) -> Share:
    """Returns squared / max_norm^2 in f fractional bits, at least the true value; 1 round or none.

    Args:
        ring: the host.
        squared: shares of squared norms with `bits` fractional bits; with K of
            `inverse_square_up`, squared K must stay below 2^62, and so must the result.
        bits: fractional bits of `squared`.
        max_norm: the public bound C.
    """
    numerator, shift = inverse_square_up(max_norm)
    shift += bits - ring.frac_bits
    scaled = squared * numerator
    if shift <= 0:
        return scaled * (1 << -shift)
    (ratio,) = ring.truncate([(scaled, shift)])
    return ring.add_public(ratio, 1)


def clip_by_norm(ring: Ring, x: Share, max_norm: float, plan: ClipPlan) -> Share:
    """Returns the rows of x scaled down to Euclidean norm at most max_norm (1 + eta).

    Args:
        ring: the host.
        x: shares of (batch, features), f fractional bits.
        max_norm: the public bound C, between 2^(-f / 2) and 2^16.
        plan: the public constants of the factor.

    Guarantees:
        eta = sqrt(features) 2^-f / C covers the truncation of the last product; the factor itself
        is one-sided. Rows of norm 0.998 C or less come back exactly, for f of 16 and more and C of
        2^-5 and more: public constants and squared norms are rounded up.

    Edge cases:
        Rows with norm of 2^(R/2) C or more become 0. The norm must stay below 2^(31 - f): beyond,
        its square leaves the ring, which cannot be noticed afterwards.

    Raises:
        ArgumentError: a bound out of range: below it, the ratio could leave the ring.

    Cost:
        Five rounds more than `clip_factor`.
    """
    f = ring.frac_bits
    if max_norm < 2.0 ** (-f / 2):
        raise ArgumentError(
            "max_norm", max_norm, f"at least 2^{-f / 2:g}", "Rescale the data, or raise frac_bits."
        )
    (square,) = ring.mul([(x, x)])
    bits = min(2 * f, max(f, 2 * f - RATIO_BITS - 1))
    (squared,) = ring.truncate([(square.sum(-1), 2 * f - bits)])
    r = ratio_up(ring, ring.add_public(squared, 1), bits, max_norm)
    factor = clip_factor(ring, r, plan)
    (product,) = ring.mul([(factor[:, None], x)])
    (result,) = ring.truncate([(product, f)])
    return result
