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
from extensions.rules import Between, one_of

RATIO_BITS = 10
"""Significant bits of the public 1/C^2; rounding it up shrinks the factor by 0.1 % at most."""

NORM = Between(2.0**-16, 2.0**16, words="between 2^-16 and 2^16", hint="Rescale the data.")
"""Range of the bound C."""

PADDING_BITS = SAFE_BITS
"""A ratio to which 2^PADDING_BITS is added has factor 0, whatever its fractional bits are."""

_KEPT = 16


@dataclass(frozen=True, kw_only=True)
class ClipPlan:
    """The public constants of one clip factor.

    Args:
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
        one_of(sorted(MINIMAX)).check("degree", self.degree)
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

    @property
    def factor_shift(self) -> int:
        """Fractional bits that the factor has beyond f before it is rounded."""
        return self.COEFFICIENT_BITS + self.U_BITS + self.scale_bits - self.frac_bits

    @functools.cached_property
    def fit(self) -> OneSided:
        """The polynomial in u."""
        return one_sided(self.degree, self.COEFFICIENT_BITS, 2.0 ** -(self.frac_bits + 1))

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


def clip_factor(ring: Ring, r: Share, plan: ClipPlan, shift: int = 0) -> Share:
    """Returns min(1, 1/sqrt(r)), never above it.

    Args:
        r: shares of squared norms over squared bound, `plan.frac_bits` + shift fractional bits, any
            shape.
        shift: further fractional bits, in 0..62 - `plan.frac_bits`. With any of them, r must stay
            below 2^62, or from there on below 2^63.

    Guarantees:
        One-sided for every rounding a host may choose; at most 0.7 % (degree 2) and two ulp below
        with the default range and up to 20 fractional bits, never negative, and in general below by
        at most the fit's relative error and `plan.shortfall`.

    Edge cases:
        =====================  ==============================================
        r                      factor
        =====================  ==============================================
        0 <= r < 1             exactly 1; with a shift, r < 1 - 2^(1 - f)
        1 <= r < 2^R           just below 1/sqrt(r)
        r >= 2^R, or negative  exactly 0: the gradient is dropped
        =====================  ==============================================

        For r of -2^63 + 2^(R + f) ulp or more, of 0 or more with a shift.

    Cost:
        The rounds of one selection (`Ring.select`) with up to R + 2 thresholds, of one (degree 2)
        or two products of truncated values, and of one truncation; with degree 3 or 4 two more.

    Source:
        Ruan et al., S&P 2023, Protocol 3, lines 9-12, with Protocol 1 inside.
    """
    (factor,) = ring.truncate([(unrounded_factor(ring, r, plan, shift), plan.factor_shift)])
    return factor


def unrounded_factor(ring: Ring, r: Share, plan: ClipPlan, shift: int) -> Share:
    """Returns `clip_factor` with `plan.factor_shift` more fractional bits: one truncation less.

    With a shift the flags compare r as it is, and the polynomial takes r / 2^shift, rounded up, of
    f fractional bits. An octave begins two ulp of those below its power of two, so that what is
    rounded up does not leave it at its end; for what lies below its beginning see `one_sided`.
    """
    selected = ring.select(r, *_tables(plan, shift), shift)
    bx, sbx = selected.products
    if shift:
        normaliser, scaled = selected.slopes
        bx, sbx = bx + normaliser, sbx + scaled
    shifts = plan.live_bits - plan.U_BITS, plan.live_bits
    (constant,) = selected.constants
    return _times_polynomial(ring, (bx, sbx), shifts, plan) + constant


@functools.lru_cache(_KEPT)
def _tables(plan: ClipPlan, shift: int) -> tuple[list[int], list[list[int]], list[list[int]]]:
    """Returns the thresholds of the selection, its slopes, and its constants."""
    f, h = plan.frac_bits, plan.scale_bits
    end = min(plan.live_bits, PADDING_BITS - shift)
    window = range(f, end)
    margin = 2 if shift else 0
    starts = [(1 << t) - margin << shift for t in window]
    pad, out_bits = plan.live_bits - 1, f + plan.factor_shift
    roots = [inverse_root_of_power(t + 1 - f, h) for t in window]
    constants = [_constant(plan, t + 1 - f, out_bits) for t in window]
    return (
        [0, *starts, 1 << (end + shift)],
        [
            _by_octave([0, *(1 << (pad - t) for t in window)]),
            _by_octave([0, *(root << (pad - t) for t, root in zip(window, roots, strict=True))]),
        ],
        [_by_octave([1 << out_bits, *constants])],
    )


def _by_octave(values: Sequence[int]) -> list[int]:
    """Returns what the bits [r < t] count, so that they sum to the value of r's own octave.

    Values are of the octaves between thresholds that follow each other, and 0 outside of them.
    """
    ends = [0, *values, 0]
    return [left - right for left, right in itertools.pairwise(ends)]


def _constant(plan: ClipPlan, exponent: int, out_bits: int) -> int:
    value = plan.fit.constant * 2.0 ** (-exponent / 2) - plan.error_bound(exponent)
    return math.floor(math.ldexp(value, out_bits)) - (1 << plan.factor_shift)


def _times_polynomial(
    ring: Ring, products: tuple[Share, Share], shifts: tuple[int, int], plan: ClipPlan
) -> Share:
    """Returns v (c_1 + c_2 u + ...), all bits kept, of u and v = s u, which shifts truncate."""
    c1, c2, c3, c4 = plan.fit.padded(4)
    one = 1 << plan.U_BITS
    items = list(zip(products, shifts, strict=True))
    if plan.degree == 2:
        (_, v), (uv,) = ring.truncate_and_multiply(items, [(0, 1)])
        return uv * c2 + v * (c1 * one)
    (u, v), (uv, uu) = ring.truncate_and_multiply(items, [(0, 1), (0, 0)])
    q, w = ring.truncate([(uv, plan.U_BITS), (uu, plan.U_BITS)])
    (product,) = ring.mul([(q, ring.add_public(u * c3 + w * c4, c2 * one))])
    return product + v * (c1 * one)


def inverse_square_up(max_norm: float, *, name: str = "max_norm") -> tuple[int, int]:
    """Returns (K, k), K / 2^k at least 1 / max_norm^2, by 0.2 % at most, and K < 2^RATIO_BITS."""
    NORM.check(name, max_norm)
    ratio = 1 / Fraction(float(max_norm)) ** 2
    denominator_bits = RATIO_BITS - math.frexp(ratio)[1]
    numerator = math.ceil(ratio * Fraction(2) ** denominator_bits)
    while numerator % 2 == 0:
        numerator, denominator_bits = numerator // 2, denominator_bits - 1
    return numerator, denominator_bits


def ratio_up(squared: Share, frac_bits: int, max_norm: float, *, bits: int) -> tuple[Share, int]:
    """Returns squared / max_norm^2, at least the true value, and its fractional bits beyond f.

    Local.

    Args:
        squared: shares of squared norms with `bits` fractional bits; with K of
            `inverse_square_up`, squared K must stay below 2^62, and so must the result.
    """
    numerator, shift = inverse_square_up(max_norm)
    shift += bits - frac_bits
    return squared * (numerator << max(0, -shift)), max(0, shift)


def clip_by_norm(ring: Ring, x: Share, max_norm: float, plan: ClipPlan) -> Share:
    """Returns the rows of x scaled down to Euclidean norm at most max_norm (1 + eta).

    Args:
        x: shares of (batch, features), f fractional bits.
        max_norm: the public bound C, between 2^(-f / 2) and 2^16.

    Guarantees:
        eta = sqrt(features) 2^-f / C covers the truncation of the last product; the factor itself
        is one-sided. Rows of norm 0.998 C or less come back exactly, for f of 16 and more and C of
        2^-5 and more: public constants and squared norms are rounded up.

    Edge cases:
        Rows with norm of 2^(R/2) C or more become 0. The norm must stay below 2^(31 - f): beyond,
        its square leaves the ring, which cannot be noticed afterwards.

    Cost:
        `clip_factor`, less its truncation, and a round for the squares, one for their sum, and
        those of scaled rows (`Ring.scale_rows`) and their truncation.
    """
    f = ring.frac_bits
    if max_norm < 2.0 ** (-f / 2):
        raise ArgumentError(
            "max_norm", max_norm, f"at least 2^{-f / 2:g}", "Rescale the data, or raise frac_bits."
        )
    rows, (square,) = ring.square_rows([x], plan.factor_shift)
    bits = min(2 * f, max(f, 2 * f - RATIO_BITS - 1))
    (squared,) = ring.truncate([(square, 2 * f - bits)])
    ratio, shift = ratio_up(ring.add_public(squared, 1), f, max_norm, bits=bits)
    (product,) = ring.scale_rows(rows, unrounded_factor(ring, ratio, plan, shift))
    (result,) = ring.truncate([(product, f)])
    return result
