"""Which epsilon a report tells for noise of other parties that is not there, or that they know."""

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from extensions.layers.linear_layers import LayerGradient
from extensions.privacy.accounting import Ledger
from extensions.privacy.randomness import SystemSource
from extensions.protocols.dpsgd import dpsgd_step
from extensions.protocols.noise import NoiseSplit, noise_without, party_variance
from extensions.protocols.optimizer import rule_of
from extensions.protocols.records import Records
from extensions.protocols.settings import TRAINING, account
from extensions.ring.fixed_point import Integers
from extensions.runs.clear_host import ClearHost
from extensions.runs.config import TrainConfig
from extensions.runs.outputs import Outputs
from extensions.runs.report import epsilons_without_noise
from tests.helpers.refused import refused


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
            assert noise_without(
                contributors, colluders, NoiseSplit(colluders=colluders)
            ) == pytest.approx(1.0)
            paper = noise_without(
                contributors, colluders, NoiseSplit(colluders=colluders, noise_shares="paper")
            )
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
    with refused("missing", "value", value=3):
        noise_without(3, 3)


class Scales:
    """A source of no noise, which remembers what was asked of it."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, float]] = []

    def gaussian(self, party: int, scale: float, shape: tuple[int, ...]) -> Integers:
        self.asked.append((party, scale))
        return np.zeros(shape, dtype=np.int64)

    bernoulli: Callable = SystemSource.bernoulli


def settings_of_seven(**changes: Any) -> TrainConfig:
    given = {"backend": "clear", "parties": 7, "noise_multiplier": 1.0, "delta": 1e-5}
    return TrainConfig(**given | {"evaluate": "noisy", "classes": 2} | changes)


@pytest.mark.parametrize(
    ("changes", "summands"),
    [
        ({}, [1 / 6] * 7),
        ({"colluders": 4}, [1 / 3] * 7),
        ({"noise_shares": "paper"}, [3 / 14] * 7),
        ({"dealer_noise": True}, [1 / 7] * 8),
        ({"dealer_noise": True, "colluders": 4}, [1 / 4] * 8),
    ],
)
def test_a_run_draws_the_summands_that_its_settings_ask_for(
    changes: dict[str, Any], summands: list[float]
):
    """In every step, and in a count, to which the dealer adds nothing."""
    config, source = settings_of_seven(**changes), Scales()
    host = ClearHost(config.frac_bits, parties=7, owners=7, source=source)
    plan = rule_of(config, config.network(3), 20, 10.0).plan
    layer = LayerGradient(
        inputs=np.zeros((20, 3), dtype=np.int64),
        deltas=np.zeros((20, 2), dtype=np.int64),
        has_bias=True,
    )
    dpsgd_step(host.ring, [layer], plan, source)
    unit = plan.sigma * 2.0 ** (plan.frac_bits + plan.factor_bits)
    drawn = {party: (scale / unit) ** 2 for party, scale in source.asked}
    assert [drawn[party] for party in sorted(drawn)] == pytest.approx(summands)
    source.asked.clear()
    held_out = Records(own=[], sizes=(1,) * 7, features=3)
    Outputs(host, config, held_out)._noised([], np.zeros(1, dtype=np.int64))
    unit = config.count_noise * 2.0**config.frac_bits
    alone = settings_of_seven(**changes | {"dealer_noise": False})
    each = party_variance(7, alone)
    assert [(scale / unit) ** 2 for _, scale in source.asked] == pytest.approx([each] * 7)
