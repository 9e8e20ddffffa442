"""Lower bounds of epsilon: never above a true one, and above a false one where runs break it."""

import bisect
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from benchmarks.audit.bound import audit, guess, least_epsilon, p_value
from benchmarks.audit.command import (
    CANARY_COLUMNS,
    WHOLE,
    additive_config,
    attack,
    planted_config,
)
from benchmarks.audit.victims import FAULTS, NO_FAULT, natural, planted, planted_in_table, released
from extensions.data.datasets import Split
from extensions.runs.config import TrainConfig
from tests.helpers.refused import refused

ALARM, DELTA = 1e-6, 1e-9
"""The second is well below the first, since delta may tell everything that often."""
PLANTED = 600


def alarm(law: np.ndarray, epsilon: float, delta: float, significance: float) -> float:
    """How probable it is that the bound is above epsilon, by the law of the right guesses."""
    secrets = len(law) - 1

    def above(right: int) -> bool:
        counts = {"secrets": secrets, "guesses": secrets, "right": right}
        return least_epsilon(**counts, delta=delta, significance=significance) > epsilon

    return float(law[bisect.bisect_left(range(secrets + 1), True, key=above) :].sum())


def test_without_delta_it_is_the_tail_of_randomised_response():
    found = p_value(secrets=50, guesses=40, right=35, epsilon=1.2, delta=0.0)
    assert found == pytest.approx(binom.sf(34, 40, 1 / (1 + math.exp(-1.2))))


def test_three_quarters_of_a_hundred_are_usual_at_the_logarithm_of_three():
    found = p_value(secrets=100, guesses=100, right=75, epsilon=math.log(3), delta=0.0)
    assert found == pytest.approx(0.553, abs=5e-4)  # Appendix D of the paper


def test_delta_counts_twice_for_every_secret():
    """Of two secrets and two right guesses alpha is the larger of P(1) and P(0 or 1) / 2."""
    q = 1 / (1 + math.exp(-0.5))
    alpha = max(2 * q * (1 - q), (1 - q**2) / 2)
    found = p_value(secrets=2, guesses=2, right=2, epsilon=0.5, delta=0.01)
    assert found == pytest.approx(q**2 + 2 * 2 * 0.01 * alpha)


@pytest.mark.parametrize("epsilon", [0.3, 1.5])
def test_randomised_response_is_rarely_above_its_epsilon_and_often_near(epsilon):
    """It is epsilon-private and no more, so that the false alarms are those that are allowed."""
    law = binom.pmf(np.arange(401), 400, 1 / (1 + math.exp(-epsilon)))
    assert 0.01 < alarm(law, epsilon, 0.0, 0.05) <= 0.05
    assert alarm(law, 0.7 * epsilon, 0.0, 0.05) > 0.1


def test_a_mechanism_that_tells_all_with_probability_delta_is_rarely_found():
    delta, law = 0.04, binom.pmf(np.arange(101), 100, 0.5)
    law = (1 - delta) * law
    law[100] += delta
    assert alarm(law, 0.0, delta, 0.05) <= 0.05
    assert alarm(law, 0.0, 0.0, 0.03) > 0.03


def test_each_coin_that_is_told_with_probability_delta_is_rarely_found():
    epsilon, delta = 0.5, 0.002
    right = delta + (1 - delta) / (1 + math.exp(-epsilon))
    law = binom.pmf(np.arange(201), 200, right)
    assert alarm(law, epsilon, delta, 0.05) <= 0.05


def test_the_clearest_scores_are_guessed_as_many_each_way():
    scores, coins = [3.0, -2.0, 0.1, 1.0, -0.2, -5.0], [1, -1, -1, -1, 1, -1]
    assert guess(scores, coins, 1.0) == (6, 3)
    assert guess(scores, coins, 0.7) == (4, 3)
    assert guess(scores, coins, 0.01) == (2, 2)
    shown = audit(scores, coins, delta=0.0, significance=0.05)
    assert shown == {"guesses": 6, "right": 3, "epsilon, at least": 0.0}


def test_more_right_guesses_than_guesses_are_refused():
    with refused("right, guesses, secrets", "range", (5, 4, 9)):
        p_value(secrets=9, guesses=4, right=5, epsilon=1.0, delta=0.0)


@pytest.mark.parametrize("null", [False, True], ids=["replaced", "null record"])
def test_what_a_run_claims_is_not_refuted(null):
    draws = np.random.default_rng()
    neighbours = "add-remove" if null else "replace"
    config = replace(planted_config("clear", PLANTED, 1.0, neighbours, WHOLE), delta=DELTA)
    game = planted(PLANTED, 3, draws, null=null)
    found = attack(config, game, NO_FAULT, significance=ALARM)
    assert found["epsilon, at least"] <= found["epsilon, claimed"]
    assert found["epsilon, claimed"] == pytest.approx(1.0, rel=1e-3)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_run_that_claims_too_little_is_found(fault):
    config = planted_config("clear", PLANTED, 2.0, "replace", WHOLE)
    game = planted(PLANTED, 3, np.random.default_rng(), null=False)
    found = attack(config, game, fault)
    assert found["epsilon, at least"] > 1.2 * found["epsilon, claimed"]


def test_without_privacy_losses_tell_which_records_were_trained_on():
    draws = np.random.default_rng(5)
    x = draws.standard_normal((80, 60))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    records = Split(train_x=x, train_y=draws.integers(0, 2, 80), test_x=x[:6], test_y=np.ones(6))
    game = natural(records, 3, draws)
    config = TrainConfig(
        **{"backend": "clear", "private": False, "insecure_seed": 3, "evaluate": "opened"},
        **{"classes": 2, "steps": 200, "sample_rate": 0.5},
    )
    scores = game.scores(released(config, game))
    guesses, right = guess(scores.tolist(), game.coins.tolist(), 1.0)
    assert right > 0.7 * guesses


def test_an_additive_model_tells_a_curious_party_no_more_than_it_claims():
    """The attack has all sums, less its own noise; a tenth of the noise is found."""
    config = additive_config("clear", CANARY_COLUMNS, 2, 1.0, "equal")
    draws = np.random.default_rng(2)
    honest, faulty = (
        attack(config, planted_in_table(config, PLANTED, draws), fault, significance=alarm)
        for fault, alarm in ((NO_FAULT, ALARM), ("a tenth of the noise", 0.05))
    )
    claim = honest["epsilon, claimed"]
    assert honest["epsilon, at least"] <= claim
    assert faulty["epsilon, at least"] > 0.5 * claim
