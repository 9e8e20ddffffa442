"""Noise over answers has the law that the argument is about, and the argument's bound holds."""

import numpy as np
import pytest
from scipy.stats import binom

from extensions.two_party.lattice.flooding import Flooding, flood, largest
from extensions.two_party.lattice.residues import Stream
from tests.extensions.two_party.lattice.test_residues import PRIMES
from tests.helpers.lattice import integers
from tests.helpers.refused import refused

COUNT = 20_000


@pytest.mark.parametrize("bits", [64, 65, 94, 113, 134, 170])
def test_noise_is_bounded_centred_and_of_the_stated_width(bits):
    """The variance is 4^bits / 4, its estimate's relative error sqrt(1.6 / COUNT); six of them."""
    drawn = [x / 2**bits for x in integers(flood(Stream(), COUNT, bits, PRIMES), PRIMES)]
    assert max(map(abs, drawn)) <= largest(bits) / 2**bits
    assert max(map(abs, drawn)) > 1.2
    assert abs(np.mean(drawn)) < 6 * 0.5 / np.sqrt(COUNT)
    assert np.var(drawn) == pytest.approx(0.25, rel=6 * np.sqrt(1.6 / COUNT))


@pytest.mark.parametrize("shift", [1, 5, 17])
def test_a_shift_is_as_hard_to_see_as_the_bound_says(shift):
    """The exact law at 2^8 steps: its distance, over n draws, is below 1.068 B sqrt(n) / 2^b."""
    width = 1 << 8
    uniform = np.full(width, 1 / width)
    law = np.convolve(np.convolve(uniform, uniform), uniform)
    law = np.convolve(law, np.array([1, 4, 1]) / 6)
    one = np.sqrt(np.concatenate([law, np.zeros(shift)]))
    other = np.sqrt(np.concatenate([np.zeros(shift), law]))
    hellinger = ((one - other) ** 2).sum() / 2
    bound = 1.068 * shift / width
    assert 0.8 * bound < np.sqrt(2 * hellinger) <= bound


def test_the_width_follows_the_run_and_the_bound():
    assert Flooding().bits(1) == 40 + 14 + 1
    assert Flooding().bits(1 << 40) == 95
    assert Flooding(coefficients=1).bits(1) == 41
    assert Flooding(security=60).bits(1) == 75


@pytest.mark.parametrize("run", [Flooding(), Flooding(1, 40), Flooding(1 << 40, 64)])
def test_errors_stay_within_their_bound_for_all_of_a_run_but_a_thousandth_of_the_distance(run):
    """The exact law of 50 errors' sum, of 42 signs each; the bound has at most 7 bits to spare."""
    signs, bound = 42 * 50, run.deviations * np.sqrt(50)
    beyond = 2 * run.coefficients * binom.sf(np.floor(signs / 2 + bound), signs, 0.5)
    assert -run.security - 17 < np.log2(beyond) <= -run.security - 10


@pytest.mark.parametrize(
    ("name", "value"), [("coefficients", 0), ("coefficients", 2**41), ("security", 39)]
)
def test_settings_outside_their_range_are_refused(name, value):
    with refused(name, "range", value):
        Flooding(**{name: value})


@pytest.mark.parametrize("bits", [63, 193])
def test_noise_of_other_widths_is_refused(bits):
    with refused("bits", "range", bits):
        flood(Stream(), 1, bits, PRIMES)
