"""Noise on a grid is at least as private as the accountant says, from the least that is taken on.

Laws are exact: probabilities are convolved, and nothing is drawn.
"""

import functools
import math

import numpy as np
import pytest
from scipy import signal, special

from extensions.privacy.randomness import SystemSource
from extensions.protocols.noise import (
    SMOOTHING,
    NoiseSplit,
    add_gaussian_noise,
    least_sigma,
    most_sigma,
    party_variance,
    summand_scale,
)
from extensions.ring.clear import ClearRing
from extensions.runs.config import TrainConfig
from tests.helpers.refused import refused

TRUSTS = [(2, 1), (3, 1), (3, 2), (7, 2)]
"""Parties, and how many of them collude."""


@pytest.mark.parametrize(("parties", "colluders"), TRUSTS)
@pytest.mark.parametrize("part", [1 - 1e-9, 0.7, 1e-3, 1e-9, 5e-324])
def test_noise_near_the_unit_of_the_last_place_is_refused(parties, colluders, part):
    """Above 0 a summand narrower than the grid has almost no variance, and no privacy."""
    ring, zeros = ClearRing(16, parties=parties), [np.zeros(3, dtype=np.int64)]
    least = least_sigma(parties, frac_bits=16, split=NoiseSplit(colluders=colluders))
    assert 31 < math.ldexp(least, 16) < 72
    options = {"frac_bits": 16, "source": SystemSource()}
    options["split"] = NoiseSplit(colluders=colluders)
    add_gaussian_noise(ring, zeros, least, **options)
    with refused("sigma", "value"):
        add_gaussian_noise(ring, zeros, max(part * least, 5e-324), **options)


def test_a_deviation_of_a_short_type_does_not_leave_its_range():
    short = summand_scale(3, np.float16(10), frac_bits=20)
    assert short == summand_scale(3, 10.0, frac_bits=20)


def test_no_noise_is_none():
    ring, x = ClearRing(16, parties=3), np.arange(5, dtype=np.int64)
    (same,) = add_gaussian_noise(ring, [x], 0.0, frac_bits=16, source=SystemSource())
    np.testing.assert_array_equal(same, x)


def discrete(scale: float) -> np.ndarray:
    """Returns the probabilities of -k..k for a discrete Gaussian."""
    x = np.arange(-math.ceil(12 * scale), math.ceil(12 * scale) + 1)
    weights = np.exp(-(x**2) / (2 * scale**2))
    return weights / weights.sum()


def faced(sigma: float, parties: int, colluders: int, convolve=np.convolve) -> np.ndarray:
    """Returns the law of what honest parties add together, at a deviation in units.

    Probabilities of tails are right in all their digits, unless another convolution rounds them.
    """
    scale = summand_scale(parties, sigma, frac_bits=0, split=NoiseSplit(colluders=colluders))
    return functools.reduce(convolve, [discrete(scale)] * (parties - colluders))


@pytest.mark.parametrize(("parties", "colluders"), TRUSTS)
@pytest.mark.parametrize("times", [1.0, 1.37, 20.0])
def test_the_noise_has_the_variance_that_is_stated(parties, colluders, times):
    sigma = times * least_sigma(parties, frac_bits=0, split=NoiseSplit(colluders=colluders))
    law = faced(sigma, parties, colluders, signal.fftconvolve)
    x = np.arange(len(law)) - len(law) // 2
    honest = parties - colluders
    stated = (
        honest
        * party_variance(parties, NoiseSplit(colluders=colluders))
        * (sigma**2 + SMOOTHING**2)
    )
    assert math.isclose(float((law * x * x).sum()), stated, rel_tol=1e-9)
    assert sigma**2 + SMOOTHING**2 <= 1.004 * sigma**2


EPSILONS = np.geomspace(1e-3, 30.0, 400)


def excess(law: np.ndarray, sigma: float, shift: int, rate: float) -> float:
    """Returns by how much delta is above that of a continuous Gaussian, at its worst.

    Delta is that of one record more or less, whichever is worse, who moves the sum by `shift`
    grid points and is sampled with probability `rate`.
    """
    x = np.arange(-(len(law) // 2), len(law) // 2 + 1 + shift)
    still, moved = np.zeros(len(x)), np.zeros(len(x))
    still[: len(law)], moved[shift:] = law, law
    mixed = (1 - rate) * still + rate * moved
    growth = np.exp(EPSILONS)
    removed = [np.maximum(mixed - each * still, 0).sum() for each in growth]
    added = [np.maximum(still - each * mixed, 0).sum() for each in growth]
    above = removed - _removed(growth, sigma, shift, rate)
    return float(max(*above, *(added - _added(growth, sigma, shift, rate))))


def _removed(growth: np.ndarray, sigma: float, shift: int, rate: float) -> np.ndarray:
    """The integral of max(mixed - growth still, 0) for continuous Gaussians."""
    point = sigma**2 / shift * np.log((growth - 1 + rate) / rate) + shift / 2
    tail = special.ndtr(-point / sigma)
    return (1 - rate - growth) * tail + rate * special.ndtr((shift - point) / sigma)


def _added(growth: np.ndarray, sigma: float, shift: int, rate: float) -> np.ndarray:
    """The integral of max(still - growth mixed, 0) for continuous Gaussians."""
    room = np.maximum(1 / growth - (1 - rate), 0)
    with np.errstate(divide="ignore"):
        point = sigma**2 / shift * np.log(room / rate) + shift / 2
    rest = special.ndtr(point / sigma)
    mixed = (1 - rate) * rest + rate * special.ndtr((point - shift) / sigma)
    return rest - growth * mixed


@pytest.mark.parametrize(("parties", "colluders"), TRUSTS)
@pytest.mark.parametrize("rate", [1.0, 0.01])
def test_the_least_noise_is_as_private_as_the_accountant_says(parties, colluders, rate):
    """At the bound, for records that move a sum by a unit or by up to three deviations.

    The same noise without the part for the grid, and noise narrower than the grid, are not.
    """
    sigma = least_sigma(parties, frac_bits=0, split=NoiseSplit(colluders=colluders))
    law = faced(sigma, parties, colluders)
    shifts = [1, 2, 7, round(sigma), round(3 * sigma)]
    assert max(excess(law, sigma, shift, rate) for shift in shifts) < 1e-13
    bare = discrete(sigma)
    assert max(excess(bare, sigma, shift, rate) for shift in shifts) > 1e-9
    narrow = discrete(0.7)
    assert max(excess(narrow, 0.7, shift, rate) for shift in (1, 2)) > 1e-4


@pytest.mark.parametrize("colluders", [1, 2])
def test_noise_of_a_dealer_is_as_private_at_its_least(colluders):
    """A dealer is one contributor more, whose law is the parties'."""
    sigma = least_sigma(4, frac_bits=0, split=NoiseSplit(colluders=colluders))
    law = faced(sigma, 4, colluders)
    shifts = [1, 2, 7, round(sigma), round(3 * sigma)]
    assert max(excess(law, sigma, shift, 1.0) for shift in shifts) < 1e-13


@pytest.mark.parametrize(("parties", "colluders"), TRUSTS)
def test_noise_that_all_parties_can_bear_together_is_drawn(parties, colluders):
    ring, zeros = ClearRing(16, parties=parties), [np.zeros(3, dtype=np.int64)]
    most = most_sigma(parties, frac_bits=16, split=NoiseSplit(colluders=colluders))
    options = {"frac_bits": 16, "source": SystemSource()}
    options["split"] = NoiseSplit(colluders=colluders)
    add_gaussian_noise(ring, zeros, math.nextafter(most, 0.0), **options)
    for wider in (most, 2 * most, 1e300):
        with refused("sigma", "value", wider):
            add_gaussian_noise(ring, zeros, wider, **options)


def test_a_noised_count_is_refused_beyond_the_same_bounds():
    settings = {"noise_multiplier": 1.0, "delta": 1e-5, "frac_bits": 8}
    least, most = least_sigma(3, frac_bits=8), most_sigma(3, frac_bits=8)
    TrainConfig(evaluate="noisy", count_noise=least, **settings)
    TrainConfig(evaluate="noisy", count_noise=math.nextafter(most, 0.0), **settings)
    for count_noise in (0.1, most, 1e300):
        TrainConfig(evaluate="mpc", count_noise=count_noise, **settings)
        with refused("count_noise", "value", count_noise):
            TrainConfig(evaluate="noisy", count_noise=count_noise, **settings)
