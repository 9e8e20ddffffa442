"""What an optimizer of scripts counts is kept, and states of before are read."""

import pytest

from extensions.privacy.accounting import Ledger
from extensions.privacy.randomness import InsecureSeededSource, SystemSource, hidden_multiplier
from extensions.protocols.optimizer.counted import Charged, Counted
from extensions.protocols.settings import ScriptTraining
from tests.helpers.refused import refused


@pytest.mark.parametrize("key", ["shift", "momentum"])
def test_a_state_counts_as_done_also_by_the_name_of_before(key):
    optimizer = Counted(ScriptTraining(noise_multiplier=1.0), None)
    optimizer.load_state_dict({"drift": [3, 0.25, 0.5], key: 5})
    assert optimizer.iterations == 3
    assert optimizer.state_dict() == {"drift": [3, 0.25, 0.5], "shift": 5}


def test_a_ledger_is_the_optimizers_own_and_restored_beside_what_else_it_has():
    settings = ScriptTraining(noise_multiplier=1.0, sample_rate=0.5)
    first, second = Charged(settings, None), Charged(settings, None)
    assert Counted(settings, None)._ledger.phases == first.ledger.phases == ()
    with refused("Charged.ledger", "fixed", "Ledger"):
        second.ledger = first.ledger
    first.record(1.0, 1e-9)
    first.record(1.0, 1e-9, steps=2)
    (phase,) = first.ledger.phases
    assert (phase.steps, phase.sample_rate, phase.noise_multiplier) == (3, 0.5, 1.0)
    other = Ledger()
    other.record("another", noise_multiplier=2.0, sample_rate=1.0, steps=1)
    second.record(3.0, 0.0)
    second.ledger.add(other)
    second.load_state_dict(first.state_dict())
    assert [each.name for each in second.ledger.phases] == ["training", "another"]
    assert second.get_epsilon(1e-5) > first.get_epsilon(1e-5) == first.ledger.get_epsilon(1e-5)


def test_noise_that_anybody_may_know_counts_as_none():
    assert hidden_multiplier(2.0, SystemSource()) == 2.0
    assert hidden_multiplier(2.0, InsecureSeededSource(1)) == 0.0
