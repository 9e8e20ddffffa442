"""The stated error of the clip factor is what its roundings can do, term by term.

A truncation is off by less than a unit of its last place, in either direction; v lacks up to one
more, since powers of the root are rounded down.
"""

import itertools

import numpy as np
import pytest

from extensions.protocols.clipping import ClipPlan, clip_by_norm
from extensions.ring.clear import ClearRing
from tests.extensions.protocols.test_clipping import degrees, widest
from tests.helpers.refused import refused

U = np.linspace(0.5, 1.0, 101)


def terms(s: float, degree: int, *errors: float) -> list[np.ndarray]:
    """Returns v, v u, ... as they are computed, where v = s u, u, q and w are off by the errors."""
    dv, du, dq, dw = errors
    v, u = s * U + dv, U + du
    if degree == 2:
        return [v, v * u]
    q, w = v * u + dq, u * u + dw
    return [v, q, q * u, q * w][:degree]


def rounding(plan: ClipPlan, exponent: int) -> float:
    """Returns the sum, over the terms of s p(u), of the most by which rounding moves each."""
    s, ulp_u, ulp_v = 2.0 ** (-exponent / 2), 2.0**-plan.U_BITS, 2.0**-plan.scale_bits
    ends = [(-2 * ulp_v, ulp_v), (-ulp_u, ulp_u), (-ulp_v, ulp_v), (-ulp_u, ulp_u)]
    exact = terms(s, plan.degree, 0.0, 0.0, 0.0, 0.0)
    moved = [
        [np.abs(term - true).max() for term, true in zip(found, exact, strict=True)]
        for found in (terms(s, plan.degree, *errors) for errors in itertools.product(*ends))
    ]
    coefficients = np.abs(plan.fit.coefficients) * 2.0**-plan.COEFFICIENT_BITS
    return float(coefficients @ np.max(moved, axis=0))


@degrees
@pytest.mark.parametrize("frac_bits", range(8, 25, 2))
def test_the_error_bound_covers_all_roundings_and_is_not_twice_as_much(frac_bits, degree):
    plan = widest(frac_bits, degree)
    for exponent in range(1, plan.range_bits + 1):
        least = rounding(plan, exponent)
        assert least * (1 - 1e-6) <= plan.error_bound(exponent) <= 2 * least


@degrees
def test_the_factor_may_be_below_by_two_such_errors_and_two_ulp(degree):
    plan = ClipPlan(frac_bits=16, degree=degree)
    for exponent in (1, 8, 16):
        twice = 2 * rounding(plan, exponent)
        assert twice * (1 - 1e-6) <= plan.shortfall(exponent) - 2.0**-15 <= 2 * twice


@pytest.mark.parametrize("frac_bits", [8, 16, 20])
def test_a_bound_whose_ratio_could_leave_the_ring_is_refused(frac_bits):
    ring, plan = ClearRing(frac_bits), ClipPlan(frac_bits=frac_bits, range_bits=10)
    x, least = np.ones((2, 3), dtype=np.int64), 2.0 ** (-frac_bits / 2)
    clip_by_norm(ring, x, least, plan)
    with refused("max_norm", "value"):
        clip_by_norm(ring, x, np.nextafter(least, 0.0), plan)
