"""A fit finds the power law that data were made by, and says how far off others are."""

import pytest

from benchmarks.steps.dpsgd_scaling import power_law
from tests.helpers.refused import refused


@pytest.mark.parametrize("exponent", [-1.0, 0.5, 1.0, 2.25])
def test_an_exact_power_law_is_found(exponent):
    x = [1.0, 3.0, 16.0, 100.0]
    assert power_law(x, [7.5 * value**exponent for value in x]) == pytest.approx((exponent, 1.0))


def test_a_constant_has_exponent_zero():
    assert power_law([16, 32, 64], [27, 27, 27]) == (0.0, 1.0)


def test_least_squares_by_hand():
    """log2 x = 0, 1, 2 and log2 y = 0, 2, 1: slope 1/2, explained variance 1/4."""
    assert power_law([1, 2, 4], [1, 4, 2]) == pytest.approx((0.5, 0.25))


@pytest.mark.parametrize(("x", "y"), [([2, 2], [1, 3]), ([1, 2], [0, 3]), ([-1, 2], [1, 3])])
def test_data_without_a_logarithm_or_a_slope_are_refused(x, y):
    with refused("x, y", "range", (x, y)):
        power_law(x, y)
