"""Opened noise is compared with its exact law: the right one passes, and a wrong one is found."""

import math

import numpy as np
import pytest
from scipy import stats

from benchmarks.noise.command import total_variance
from benchmarks.noise.hosts import FLOATS, PROTOCOL2, RANDN
from benchmarks.noise.statistics import at_most, chi_square, summary
from extensions.privacy.discrete import discrete_gaussian
from tests.helpers.refused import refused
from tests.helpers.strategies import ALARM

DRAWS = 40_000


@pytest.mark.parametrize("scale", [4.0, 77.3, 4096.0, 4097.0, 2.0**26])
def test_probabilities_are_those_of_a_discrete_gaussian(scale):
    k = np.array([-20, -3, -1, 0, 1, 2, 7, 50]) * max(1, int(scale / 8))
    got = at_most(k, scale)
    np.testing.assert_allclose(got + at_most(-k - 1, scale), 1.0, atol=1e-12)
    steps = at_most(k, scale) - at_most(k - 1, scale)
    near = np.abs(k) < 6 * scale
    exact = np.exp(-0.5 * (k / scale) ** 2) / (scale * math.sqrt(2 * math.pi))
    np.testing.assert_allclose(steps[near], exact[near], rtol=1e-4, atol=1e-14)


def test_both_ways_to_compute_probabilities_meet():
    k = np.arange(-20_000, 20_000, 1000)
    np.testing.assert_allclose(at_most(k, 4096.0), at_most(k, 4096.0001), atol=1e-7)


@pytest.mark.parametrize(
    "scale", [5.0, *(pytest.param(each, marks=pytest.mark.long) for each in (300.0, 2.0**17))]
)
def test_draws_pass_and_a_wrong_width_is_found(scale):
    """A width 4 % off moves the statistic by 40,000 * 2 * 0.04^2 = 128; 1e-8 is at 138 of 63."""
    draws = sum(discrete_gaussian(scale / math.sqrt(3), (DRAWS,)) for _ in range(3))
    assert chi_square(draws, scale) > ALARM
    assert chi_square(draws, 1.08 * scale) < ALARM
    assert chi_square(draws, scale / 1.08) < ALARM


def test_the_summary_of_known_draws():
    """The quantiles of a normal: no draw is missing, so that every figure is known."""
    scale = 2.0**20
    draws = np.rint(scale * stats.norm.ppf((np.arange(DRAWS) + 0.5) / DRAWS)).astype(np.int64)
    row = summary(draws, scale)
    assert row["draws"] == DRAWS
    assert abs(row["mean / sd"]) < 1e-6
    assert abs(row["variance / exact"] - 1.0) < 1e-3
    assert abs(row["excess kurtosis"]) < 1e-2
    assert row["beyond 3 sd (expected)"] == "108 (108.0)"
    assert row["beyond 4 sd (expected)"] == "2 (2.5)"
    assert row["chi-square p-value"] > 0.999


def test_too_narrow_a_law_is_refused():
    with refused("scale", "range", value=3.9):
        at_most(np.array([0]), 3.9)


def test_the_variance_that_each_way_adds():
    assert total_variance(PROTOCOL2, 3) == total_variance(FLOATS, 3) == 1.5
    assert total_variance(PROTOCOL2, 2) == 2.0
    assert total_variance(RANDN, 3) == 1.0
