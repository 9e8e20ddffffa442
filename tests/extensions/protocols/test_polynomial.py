"""The polynomials are the best one-sided ones there are, and stay one-sided when rounded."""

import numpy as np
import pytest
from scipy.optimize import linprog

from extensions.protocols.polynomial import MINIMAX, OneSided, one_sided

DEGREES = sorted(MINIMAX)
FINE = np.linspace(0.5, 1.0, 100_003)
"""Points that the fits were not made on."""


def without_constant(fit: OneSided, u: np.ndarray) -> np.ndarray:
    powers = np.array([u**k for k in range(1, fit.degree + 1)])
    return np.array(fit.coefficients) @ powers / 2.0**fit.coefficient_bits


def best_by_linear_programming(degree: int) -> tuple[np.ndarray, float]:
    """Minimises e over polynomials q with 1 - e <= q(u) sqrt(u) <= 1 on a grid."""
    u = np.linspace(0.5, 1.0, 4001)
    basis = np.polynomial.chebyshev.chebvander(4 * u - 3, degree) * np.sqrt(u)[:, None]
    upper = np.hstack([basis, np.zeros((len(u), 1))])
    lower = np.hstack([-basis, -np.ones((len(u), 1))])
    solution = linprog(
        [0.0] * (degree + 1) + [1.0],
        A_ub=np.vstack([upper, lower]),
        b_ub=np.concatenate([np.ones(len(u)), -np.ones(len(u))]),
        bounds=(None, None),
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    assert solution.success
    return solution.x[:-1], solution.fun


@pytest.mark.parametrize("degree", DEGREES)
def test_linear_programming_finds_the_same_polynomial(degree):
    chebyshev, level = best_by_linear_programming(degree)
    q = np.polynomial.polynomial.polyval(FINE, MINIMAX[degree])
    distance = 1 - q * np.sqrt(FINE)
    assert distance.min() > -1e-12
    assert distance.max() == pytest.approx(level, abs=1e-6)
    found = np.polynomial.chebyshev.chebval(4 * FINE - 3, chebyshev)
    assert np.abs(found - q).max() < 1e-6


@pytest.mark.parametrize("degree", DEGREES)
def test_the_error_touches_both_bounds_as_often_as_a_best_fit_must(degree):
    distance = 1 - np.polynomial.polynomial.polyval(FINE, MINIMAX[degree]) * np.sqrt(FINE)
    high = distance > distance.max() / 2
    extremes = 1 + np.count_nonzero(high[1:] != high[:-1])
    assert extremes == degree + 2


@pytest.mark.parametrize(("degree", "percent"), [(2, "0.64"), (3, "0.096"), (4, "0.015")])
def test_relative_errors(degree, percent):
    exact = 1 - np.polynomial.polynomial.polyval(FINE, MINIMAX[degree]) * np.sqrt(FINE)
    assert f"{100 * exact.max():.2g}" == percent
    assert f"{100 * one_sided(degree, 16).relative_error():.2g}" == percent


@pytest.mark.parametrize("below", [2.0**-9, 2.0**-17])
@pytest.mark.parametrize("degree", DEGREES)
def test_fits_are_one_sided_as_far_below_a_half_as_asked(degree, below):
    fit = one_sided(degree, 16, below)
    u = np.concatenate([np.linspace(0.5 - below, 0.5, 1000), FINE])
    room = u**-0.5 - (fit.constant + without_constant(fit, u))
    assert 0 < room.min() < 3e-8
    largest = float((1 - (fit.constant + without_constant(fit, u)) * np.sqrt(u)).max())
    assert fit.relative_error() == pytest.approx(largest, abs=1e-8)


@pytest.mark.parametrize("coefficient_bits", [8, 12, 16, 20])
@pytest.mark.parametrize("degree", DEGREES)
def test_rounded_fits_stay_below_and_could_not_be_higher(degree, coefficient_bits):
    fit = one_sided(degree, coefficient_bits)
    assert fit.degree == degree
    scaled = np.array(MINIMAX[degree][1:]) * 2**coefficient_bits
    assert np.abs(np.array(fit.coefficients) - scaled).max() <= 0.5
    room = FINE**-0.5 - (fit.constant + without_constant(fit, FINE))
    assert 0 < room.min() < 3e-8


@pytest.mark.parametrize("lowered_by", [0.0, 1e-5, 1e-3])
@pytest.mark.parametrize("degree", DEGREES)
def test_relative_error_is_that_of_the_rounded_fit(degree, lowered_by):
    fit = one_sided(degree, 16)
    value = fit.constant - lowered_by + without_constant(fit, FINE)
    largest = float((1 - value * np.sqrt(FINE)).max())
    assert fit.relative_error(lowered_by) == pytest.approx(largest, abs=1e-8)


@pytest.mark.parametrize("degree", DEGREES)
def test_slopes_bound_what_an_error_of_u_or_of_its_square_does(degree):
    fit = one_sided(degree, 16)
    c1, c2, c3, c4 = (c / 2.0**16 for c in (*fit.coefficients, 0, 0)[:4])

    def with_square(u: np.ndarray, w: np.ndarray) -> np.ndarray:
        return c1 * u + w * (c2 + c3 * u + c4 * w)

    step = 2.0**-22
    along = with_square(FINE + step, (FINE + step) ** 2) - with_square(FINE, FINE**2)
    assert np.abs(along).max() <= fit.slope_u * step
    if degree > 2:
        for shift in (-step, step):
            across = with_square(FINE, FINE**2 + shift) - with_square(FINE, FINE**2)
            assert np.abs(across).max() <= fit.slope_w * step
    else:
        assert fit.slope_w == 0.0
