"""1/sqrt(x) is never exceeded, whatever the rounding, and missed by no more than is promised.

One-sidedness is decided in exact integers: y <= 1/sqrt(x) if and only if Y^2 X <= 2^(3f). The
paper's own form is accurate but not one-sided; a witness shows it.
"""

import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extensions.protocols.inverse_sqrt import (
    P_BITS,
    U_BITS,
    InverseSqrtPlan,
    inverse_root_of_power,
    inverse_sqrt,
)
from extensions.protocols.paper.inverse_sqrt_paper import inverse_sqrt_paper
from extensions.ring.clear import ClearRing
from tests.helpers.claims import claim
from tests.helpers.refused import refused
from tests.helpers.strategies import (
    PRESETS,
    PROPERTY,
    ROUNDINGS,
    above_inverse_root,
    boundaries,
    live_integers,
    sweep,
    true_inverse_root,
)

DEGREES = (2, 3, 4)
FLOAT_SLACK = 1 - 1e-13
"""What evaluating a bound in doubles may cost."""


@functools.cache
def on_the_sweep(frac_bits: int, degree: int, rounding: str) -> np.ndarray:
    ring = ClearRing(frac_bits, rounding=rounding, seed=3)
    return inverse_sqrt(ring, sweep(frac_bits), InverseSqrtPlan(frac_bits=frac_bits, degree=degree))


def assert_within_guarantee(x: np.ndarray, y: np.ndarray, plan: InverseSqrtPlan) -> None:
    assert above_inverse_root(x, y, plan.frac_bits) == []
    least = (1 - plan.relative_error) * true_inverse_root(x, plan.frac_bits) * FLOAT_SLACK - 3
    assert (y >= least).all()


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("degree", DEGREES)
@pytest.mark.parametrize("frac_bits", PRESETS)
class TestSweep:
    """0.01 .. 300, 20,000 points and every power of two with its neighbours."""

    @claim("The clip factor is at most its true value.")
    def test_never_above_and_within_the_guarantee(self, frac_bits, degree, rounding):
        y = on_the_sweep(frac_bits, degree, rounding)
        plan = InverseSqrtPlan(frac_bits=frac_bits, degree=degree)
        assert_within_guarantee(sweep(frac_bits), y, plan)

    def test_at_most_one_percent_below(self, frac_bits, degree, rounding):
        y = on_the_sweep(frac_bits, degree, rounding)
        assert (y >= 0.99 * true_inverse_root(sweep(frac_bits), frac_bits)).all()


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("degree", DEGREES)
@pytest.mark.parametrize("frac_bits", [8, 12, *PRESETS, 24])
def test_powers_of_two_and_their_neighbours_over_the_live_range(frac_bits, degree, rounding):
    plan = InverseSqrtPlan(frac_bits=frac_bits, degree=degree)
    x = boundaries(plan.live_bits)
    assert_within_guarantee(x, inverse_sqrt(ClearRing(frac_bits, rounding=rounding), x, plan), plan)


@PROPERTY
@given(st.data(), st.integers(8, 24), st.sampled_from(DEGREES), st.sampled_from(ROUNDINGS))
def test_one_sided_over_the_whole_live_range(data, frac_bits, degree, rounding):
    plan = InverseSqrtPlan(frac_bits=frac_bits, degree=degree)
    x = data.draw(live_integers(plan.live_bits))
    ring = ClearRing(frac_bits, rounding=rounding, seed=data.draw(st.integers(0, 2**32)))
    assert_within_guarantee(x, inverse_sqrt(ring, x, plan), plan)


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("degree", DEGREES)
@pytest.mark.parametrize("frac_bits", [8, *PRESETS, 24])
def test_zero_negative_and_beyond_the_live_range_give_exactly_zero(frac_bits, degree, rounding):
    plan = InverseSqrtPlan(frac_bits=frac_bits, degree=degree)
    first = 1 << plan.live_bits
    x = np.array([0, -1, -2, -(2**20), 1 - 2**63, -(2**63), first, first + 1, 2**62, 2**63 - 1])
    y = inverse_sqrt(ClearRing(frac_bits, rounding=rounding), x, plan)
    np.testing.assert_array_equal(y, np.zeros_like(x))


@pytest.mark.parametrize("frac_bits", range(8, 25))
def test_what_the_end_of_the_live_range_costs(frac_bits):
    plan = InverseSqrtPlan(frac_bits=frac_bits)
    ulp = 2.0 ** (1.5 * frac_bits - plan.live_bits / 2)
    assert ulp == (2.0 if frac_bits <= 21 else 2.0 ** (1.5 * frac_bits - 31))


@pytest.mark.parametrize("shape", [(), (1,), (2, 3), (0,)])
def test_any_shape(shape):
    x = np.full(shape, 4 << 20, dtype=np.int64)
    y = inverse_sqrt(ClearRing(20), x, InverseSqrtPlan(frac_bits=20))
    assert np.shape(y) == shape
    assert (np.abs(np.asarray(y) / 2**20 - 0.5) < 2e-4).all()


@pytest.mark.parametrize(("degree", "percent"), [(2, "0.64"), (3, "0.096"), (4, "0.015")])
def test_the_plan_states_the_relative_error(degree, percent):
    assert f"{100 * InverseSqrtPlan(frac_bits=20, degree=degree).relative_error:.2g}" == percent


@pytest.mark.parametrize("degree", DEGREES)
def test_the_constant_is_lowered_by_what_roundings_can_lift_and_little_more(degree):
    """By truncations of u, of its square and of the sum, each off by less than an ulp."""
    plan = InverseSqrtPlan(frac_bits=20, degree=degree)
    c1, c2, c3, c4 = (c * 2.0**-16 for c in (*plan.fit.coefficients, 0, 0)[:4])
    u, ulp = np.linspace(0.5, 1.0, 501), 2.0**-U_BITS

    def tail(u: np.ndarray, slip: float) -> np.ndarray:
        w = u * u + (slip if degree > 2 else 0.0)
        return c1 * u + w * (c2 + c3 * u + c4 * w)

    lifts = [tail(u + a, b) - tail(u, 0.0) for a in (-ulp, ulp) for b in (-ulp, ulp)]
    least = float(np.max(lifts)) + 2.0**-P_BITS
    assert least <= plan.lowered_by <= 1.5 * least


@PROPERTY
@given(st.integers(-60, 60), st.integers(0, 40))
def test_roots_of_powers_are_rounded_down_exactly(exponent, bits):
    root = inverse_root_of_power(exponent, bits)
    power = 2 * bits - exponent
    if power >= 0:
        assert root**2 <= 2**power < (root + 1) ** 2
    else:
        assert root == 0


@pytest.mark.parametrize("degree", [1, 5, 0, -3])
def test_other_degrees_are_refused(degree):
    with refused("degree", "choice", value=degree):
        InverseSqrtPlan(frac_bits=20, degree=degree)


@pytest.mark.parametrize("frac_bits", [7, 25, 0, -1])
def test_other_fractional_bits_are_refused(frac_bits):
    with refused("frac_bits", "range", frac_bits):
        InverseSqrtPlan(frac_bits=frac_bits)


class TestPaperForm:
    """Protocol 1 line by line."""

    @pytest.mark.parametrize("rounding", ROUNDINGS)
    @pytest.mark.parametrize("frac_bits", PRESETS)
    def test_error_over_the_sweep(self, frac_bits, rounding):
        x = sweep(frac_bits)
        y = inverse_sqrt_paper(ClearRing(frac_bits, rounding=rounding, seed=5), x, width=40)
        true = true_inverse_root(x, frac_bits)
        assert (y <= (1 - 9e-5) * true + 2).all()
        assert (y >= (1 - 0.0086) * true - 2).all()
        assert (y / true - 1).min() < -0.0085

    @PROPERTY
    @given(st.data(), st.integers(8, 24), st.integers(2, 62), st.sampled_from(ROUNDINGS))
    def test_error_for_every_width(self, data, frac_bits, width, rounding):
        x = data.draw(live_integers(width))
        y = inverse_sqrt_paper(ClearRing(frac_bits, rounding=rounding, seed=1), x, width=width)
        true = true_inverse_root(x, frac_bits)
        low, high = (0.0086, 9e-5) if width <= 54 else (0.0087, 2e-5)
        assert (y <= (1 - high) * true + 2).all()
        assert (y >= (1 - low) * true - 2).all()

    def test_it_is_not_one_sided_where_the_one_hot_form_is(self):
        ring = ClearRing(16, rounding="ceiling")
        x = sweep(16)
        witnesses = above_inverse_root(x, inverse_sqrt_paper(ring, x, width=40), 16)
        assert witnesses
        assert max(value for value, _ in witnesses) < 2**40
        x = np.array([value for value, _ in witnesses])
        for degree in DEGREES:
            y = inverse_sqrt(ring, x, InverseSqrtPlan(frac_bits=16, degree=degree))
            assert above_inverse_root(x, y, 16) == []

    def test_nor_with_the_rounding_that_hosts_have(self):
        x = np.arange(2**24 - 8000, 2**24)
        y = inverse_sqrt_paper(ClearRing(16, seed=7), x, width=40)
        assert above_inverse_root(x, y, 16)

    @pytest.mark.parametrize("rounding", ROUNDINGS)
    @pytest.mark.parametrize("width", [17, 40, 41, 61])
    def test_outside_the_declared_width_it_is_one_public_constant(self, width, rounding):
        x = np.array([0, -1, -(2**63), 1 << width, (1 << width) + 1, 2**62])
        y = inverse_sqrt_paper(ClearRing(16, rounding=rounding), x, width=width)
        constant = 2.223 - 0.0048
        expected = constant * 2.0**-0.5 * 2.0 ** (16 - (width - 16) // 2)
        assert np.abs(y - expected).max() <= 1 + 1e-3 * expected

    @pytest.mark.parametrize("width", [1, 63, 0, -4])
    def test_other_widths_are_refused(self, width):
        with refused("width", "range", value=width):
            inverse_sqrt_paper(ClearRing(16), np.array([1]), width=width)
