"""Fits find the law that data were made by, and say how far off data of no such law are."""

import itertools
import math

import numpy as np
import pytest

from benchmarks.steps.dpsgd_scaling import multilinear, of_parties, power_law
from tests.helpers.refused import refused

NAMES = ("batch", "features", "classes")
GRID = [
    dict(zip(NAMES, point, strict=True))
    for point in itertools.product((16.0, 64.0, 256.0), (32.0, 512.0), (2.0, 10.0))
]


@pytest.mark.parametrize("exponent", [-1.0, 0.5, 1.0, 2.25])
def test_an_exact_power_law_is_found(exponent):
    x = [1.0, 3.0, 16.0, 100.0]
    law = power_law(x, [7.5 * value**exponent for value in x])
    assert math.isclose(law.exponent, exponent, rel_tol=1e-12)
    assert math.isclose(law.scale, 7.5, rel_tol=1e-12)
    assert math.isclose(law.r_squared, 1.0, rel_tol=1e-12)


def test_a_constant_has_exponent_zero():
    law = power_law([16, 32, 64], [27, 27, 27])
    assert (law.exponent, law.scale, law.r_squared) == (0.0, 27.0, 1.0)


def test_least_squares_by_hand():
    """log2 x = 0, 1, 2 and log2 y = 0, 2, 1: slope 1/2, explained variance 1/4."""
    law = power_law([1, 2, 4], [1, 4, 2])
    assert math.isclose(law.exponent, 0.5)
    assert math.isclose(law.r_squared, 0.25)


@pytest.mark.parametrize(("x", "y"), [([2, 2], [1, 3]), ([1, 2], [0, 3]), ([-1, 2], [1, 3])])
def test_data_without_a_logarithm_or_a_slope_are_refused(x, y):
    with refused("x, y", "range", (x, y)):
        power_law(x, y)


def test_a_law_of_three_factors_is_found_term_by_term():
    true = {(): 4096.0, ("batch",): 90.0, ("batch", "features"): 24.0, ("features", "classes"): 8.0}
    values = [sum(c * np.prod([p[n] for n in t]) for t, c in true.items()) for p in GRID]
    law = multilinear(GRID, values)
    assert law.worst < 1e-12
    assert len(law.coefficients) == 8
    for term, value in law.coefficients.items():
        assert abs(value - true.get(term, 0.0)) < 1e-6
    outside = {"batch": 1000.0, "features": 7.0, "classes": 3.0}
    assert math.isclose(law.at(outside), 4096 + 90e3 + 24 * 7e3 + 8 * 21, rel_tol=1e-9)


def test_a_cost_that_is_not_linear_is_told_by_the_residual():
    law = multilinear(GRID, [p["batch"] ** 2 + 1 for p in GRID])
    assert law.worst > 0.1


def test_points_that_leave_terms_open_are_refused():
    one_factor = [{**GRID[0], "batch": value} for value in (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0)]
    with refused("points", "shape", "8 of rank 2"):
        multilinear(one_factor, [1.0] * 8)


def test_a_law_of_parties_is_found_term_by_term():
    parties = range(2, 9)
    law = of_parties(parties, [300.0 * (n - 1) + 7e4 * (1 - 1 / n) for n in parties])
    assert law.worst < 1e-12
    assert law.coefficients == pytest.approx({("n - 1",): 300.0, ("1 - 1/n",): 7e4})
    assert of_parties(parties, [n * n for n in parties]).worst > 0.1
    with refused("points", "shape", "2 of rank 1"):
        of_parties([3, 3], [1.0, 1.0])
