"""Encrypted noise: of the stated variance, drawn by each party from its own operating system.

Every statistical assertion has a false-alarm probability of `ALARM`. A standard deviation that is
10 % off passes with probability below 1e-40: its statistic is 14 deviations beyond the threshold.
"""

import numpy as np
import pytest

from extensions.protocols.noise import party_variance, summand_scale
from extensions.ring.fixed_point import Integers
from tests.conformance.arenas.arena import CrypTenArena
from tests.helpers.strategies import ALARM, mean_p_value, variance_p_value

DRAWS = 20_000


def assert_has_deviation(draws: Integers, deviation: float) -> None:
    assert variance_p_value(draws, deviation**2) > ALARM
    assert mean_p_value(draws, deviation**2) > ALARM
    for wrong in (0.9, 1.1):
        assert variance_p_value(draws, (wrong * deviation) ** 2) < ALARM


@pytest.mark.parametrize(
    ("frac_bits", "sigma"),
    [
        pytest.param(16, 60.0, marks=pytest.mark.long),
        (16, 0.0007),  # the least that three parties take is 46 units of the last place
        (20, 0.8),
        pytest.param(16, 0.8, marks=pytest.mark.long),
        pytest.param(20, 60.0, marks=pytest.mark.long),
    ],
)
def test_noise_has_the_stated_variance(crypten_arena: CrypTenArena, frac_bits: int, sigma: float):
    shape = (DRAWS // 100, 100)
    answers = crypten_arena.run("draw_noise", frac_bits=frac_bits, shape=shape, sigma=sigma)
    first, second = answers[0]["opened"]
    assert first.shape == second.shape == shape
    each = summand_scale(crypten_arena.parties, sigma, frac_bits=frac_bits)
    for opened in (first, second):
        assert_has_deviation(opened, crypten_arena.parties**0.5 * each)
    own = [answer["own"] for answer in answers]
    np.testing.assert_array_equal(sum(own), second)
    for draws in own:
        assert_has_deviation(draws, each)
    distinct = [first, second, *own]
    assert len({tuple(draws.ravel()[:50].tolist()) for draws in distinct}) == len(distinct)


def test_what_colluding_parties_leave(crypten_arena: CrypTenArena):
    colluders, sigma = crypten_arena.parties - 1, 2.0
    options = {"frac_bits": 16, "shape": (DRAWS,), "sigma": sigma, "colluders": colluders}
    answers = crypten_arena.run("draw_noise", **options)
    known = sum(answer["own"] for answer in answers[:colluders])
    assert_has_deviation(answers[0]["opened"][1] - known, sigma * 2**16)


def test_no_seed_that_a_script_can_set_repeats_noise(crypten_arena: CrypTenArena):
    answers = crypten_arena.run("draw_noise_seeded", sigma=1.0, times=4)
    for drawn in answers[1:]:
        np.testing.assert_array_equal(drawn, answers[0])
    assert len({tuple(draws.tolist()) for draws in answers[0]}) == 4
    spread = party_variance(crypten_arena.parties) * crypten_arena.parties * 2.0**32
    assert variance_p_value(np.concatenate(answers[0]), spread) > ALARM


def test_sigma_zero_is_no_noise(crypten_arena: CrypTenArena):
    answers = crypten_arena.run("draw_noise", frac_bits=16, shape=(5,), sigma=0.0)
    assert not any(opened.any() for opened in answers[0]["opened"])
