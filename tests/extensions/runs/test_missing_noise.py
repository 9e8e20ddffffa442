"""Which epsilon a report tells for noise of other parties that is not there, or that they know."""

import math
from statistics import NormalDist
from typing import Any

import pytest

from extensions.errors import ArgumentError
from extensions.privacy.accounting import Ledger
from extensions.protocols.noise import noise_without
from extensions.protocols.settings import TRAINING, account
from extensions.runs.config import TrainConfig
from extensions.runs.report import epsilons_without_noise


def told(**changes: Any) -> dict[str, float]:
    settings = {"backend": "clear", "epsilon": 2.0, "delta": 1e-5, "sample_rate": 1.0, "steps": 1}
    config = TrainConfig(**settings | changes).resolved()
    ledger = Ledger()
    account(ledger, TRAINING, config, config.steps)
    found = epsilons_without_noise(config, ledger)
    assert found is not None
    return found


def test_of_three_parties_two_missing_leave_what_one_adds():
    """By the closed form of one Gaussian mechanism (Balle and Wang, ICML 2018, theorem 8)."""
    found = told()
    assert found.keys() == {"1", "2"}
    assert found["1"] == pytest.approx(2.0, abs=0.001)
    settings = TrainConfig(backend="clear", epsilon=2.0, delta=1e-5, sample_rate=1.0, steps=1)
    distance = 1 / (math.sqrt(0.5) * (settings.resolved().noise_multiplier or 0.0))
    far, near = (NormalDist().cdf(s * distance / 2 - found["2"] / distance) for s in (-1, 1))
    assert near - math.exp(found["2"]) * far == pytest.approx(1e-5, rel=0.01)
    assert found["2"] == pytest.approx(2.95, abs=0.01)


def test_of_two_parties_each_adds_all():
    assert told(parties=2) == {"1": pytest.approx(2.0, abs=0.01)}


def test_of_many_parties_few_numbers_are_told():
    found = told(parties=9)
    assert [*found] == ["1", "2", "3", "8"]
    assert sorted(found.values()) == [*found.values()]
    assert found["8"] > 2 * found["1"]


def test_without_noise_or_others_there_is_nothing_to_tell():
    assert epsilons_without_noise(TrainConfig(private=False), Ledger()) is None
    assert told(parties=1) == {}
    none = told(epsilon=None, noise_multiplier=0.0)
    assert none == {"1": math.inf, "2": math.inf}


def test_an_owners_local_model_does_not_depend_on_others_noise():
    ledger = Ledger()
    for name, noise in (("local model", 2.0), (TRAINING, 3.0)):
        ledger.record(name, noise_multiplier=noise, sample_rate=0.5, steps=2)
    ledger.disclose("count")
    first, second = ledger.with_noise(TRAINING, 0.5).phases
    assert (first, second.noise_multiplier) == (ledger.phases[0], 1.5)
    assert ledger.with_noise(TRAINING, 1.0).to_json() == ledger.to_json()


@pytest.mark.parametrize(
    ("parties", "missing", "variance"),
    [(3, 0, 1.5), (3, 1, 1.0), (3, 2, 0.5), (2, 0, 2.0), (2, 1, 1.0), (4, 1, 1.0), (1, 0, 1.0)],
)
def test_what_is_left_is_what_the_others_add(parties, missing, variance):
    assert noise_without(parties, missing) == pytest.approx(math.sqrt(variance))


@pytest.mark.parametrize("parties", range(2, 11))
def test_as_many_as_collude_leave_what_was_asked_for(parties):
    for colluders in range(1, parties):
        for contributors in (parties, parties + 1):
            assert noise_without(contributors, colluders, colluders) == pytest.approx(1.0)
            paper = noise_without(contributors, colluders, colluders, "paper")
            assert paper >= 1.0 - 1e-12


def test_against_all_who_may_collude_epsilon_is_the_runs():
    """Whatever their number: those who are told first face more noise, the last one the less."""
    for colluders in (1, 2, 3):
        found = told(parties=4, colluders=colluders)
        assert found[str(colluders)] == pytest.approx(2.0, abs=0.01)
        assert [*found] == ["1", "2", "3"]
        assert sorted(found.values()) == [*found.values()]
    assert told(parties=4, noise_shares="paper")["1"] < 1.9


def test_with_a_dealers_noise_it_is_also_told_without_it():
    found = told(dealer_noise=True)
    assert [*found] == ["1", "2", "the dealer", "1 and the dealer", "2 and the dealer"]
    assert found["1"] == pytest.approx(2.0, abs=0.01)
    assert found["the dealer"] == found["1"]  # three of four remain
    assert found["1 and the dealer"] == found["2"] > 2.3
    two = told(parties=3, dealer_noise=True, colluders=2)
    assert two["2"] == pytest.approx(2.0, abs=0.01)
    assert two["the dealer"] == two["1"] < 2.0
    last = told(dealer_noise=True)["2 and the dealer"]
    assert last == pytest.approx(told_of_a_third(), abs=0.001)


def told_of_a_third() -> float:
    """Returns epsilon of one summand in three, each a third of sigma^2."""
    config = TrainConfig(backend="clear", epsilon=2.0, delta=1e-5, sample_rate=1.0, steps=1)
    ledger = Ledger()
    noise = (config.resolved().noise_multiplier or 0.0) / math.sqrt(3)
    ledger.record("one", noise_multiplier=noise, sample_rate=1.0, steps=1)
    return ledger.get_epsilon(1e-5)


def test_somebody_adds_noise():
    with pytest.raises(ArgumentError, match=r"missing = 3: must be in 0\.\.2"):
        noise_without(3, 3)
