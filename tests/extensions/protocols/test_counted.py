"""What an optimizer of scripts counts is kept, and states of before are read."""

import pytest

from extensions.privacy.accounting import Ledger
from extensions.privacy.randomness import InsecureSeededSource, SystemSource, hidden_multiplier
from extensions.protocols.optimizer.counted import Charged, Counted
from extensions.protocols.settings import ScriptTraining
from extensions.protocols.updates import SGDRule
from extensions.protocols.updates.adam import AdamRule, Betas
from tests.helpers.refused import refused
from tests.helpers.strategies import plan_of


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
    other.disclose("counts")
    second.record(3.0, 0.0)
    second.ledger.add(other)
    second.load_state_dict(first.state_dict())
    assert [each.name for each in second.ledger.phases] == ["training", "another"]
    assert second.ledger.opened == ["counts"]
    assert second.get_epsilon(1e-5) > first.get_epsilon(1e-5) == first.ledger.get_epsilon(1e-5)


def test_steps_are_numbered_and_the_next_depends_on_how_the_last_was_truncated():
    adam = AdamRule(plan_of(noise_multiplier=1.0), Betas(0.9, 0.99))
    carried = SGDRule(plan_of(noise_multiplier=1.0, momentum=0.5))
    settings = ScriptTraining(noise_multiplier=1.0, sample_rate=0.5)
    first, second = Charged(settings, None), Charged(settings, None)
    for number in (1, 2, 3):
        assert first.public(adam) == adam.public(number)
        first.count(adam)
    first.count(carried)
    assert first.state_dict()["shift"] == carried.last(carried.public(4)) is not None
    second.load_state_dict(first.state_dict())
    assert second.iterations == first.iterations == 4
    assert second.state_dict() == first.state_dict()


def test_another_source_holds_from_then_on():
    optimizer, source = Counted(ScriptTraining(noise_multiplier=1.0), None), InsecureSeededSource(1)
    assert isinstance(optimizer.source, SystemSource)
    optimizer.source = source
    assert optimizer.source is source
    optimizer.source = None
    assert isinstance(optimizer.source, SystemSource)


def test_noise_that_anybody_may_know_counts_as_none():
    assert hidden_multiplier(2.0, SystemSource()) == 2.0
    assert hidden_multiplier(2.0, InsecureSeededSource(1)) == 0.0
