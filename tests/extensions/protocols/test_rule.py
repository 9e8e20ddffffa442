"""A rule without its learning rate computes the same of the same public integers."""

from dataclasses import replace

import numpy as np
import pytest

from extensions.protocols.settings import ScriptTraining
from extensions.protocols.updates import RULES, SGDRule
from extensions.protocols.updates.adam import AdamRule, Betas
from extensions.protocols.updates.rule import UpdateRule
from extensions.ring.clear import ClearRing
from extensions.ring.fixed_point import encode
from tests.helpers.signs import registered
from tests.helpers.strategies import plan_of

OTHERS = {"learning_rate": 0.02, "expected_batch_size": 31.0}
KINDS = {
    "sgd": lambda plan: SGDRule(plan),
    "momentum": lambda plan: SGDRule(replace(plan, momentum=0.5)),
    "adam": lambda plan: AdamRule(plan, Betas(0.9, 0.99)),
    "adam without noise": lambda plan: AdamRule(replace(plan, noise_multiplier=0.0)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_fixed_rule_is_one_for_all_rates(kind):
    plan = plan_of(noise_multiplier=1.0)
    rule, other = (KINDS[kind](each) for each in (plan, replace(plan, **OTHERS)))
    if kind == "adam without noise":  # whose least moment is in units of the batch
        other = KINDS[kind](replace(plan, learning_rate=0.02))
    assert rule.fixed == other.fixed != rule
    ring, draws = ClearRing(plan.frac_bits, parties=3, rounding="floor"), np.random.default_rng(0)
    sums = [
        tuple(encode(draws.normal(0, 300, size), plan.frac_bits) for size in ((4, 6), (4,)))
        for _ in plan.layers
    ]
    names = type(rule).names_of(rule.plan)
    kept = {name: [tuple(part * 0 for part in pair) for pair in sums] for name in names}
    public = rule.public(1)
    assert public != other.public(1)
    for found, same in zip(
        rule.after(ring, sums, kept, public),
        rule.fixed.after(ring, sums, kept, public),
        strict=True,
    ):
        np.testing.assert_equal(found, same)


def test_only_a_step_with_momentum_depends_on_the_one_before():
    plan = plan_of(noise_multiplier=1.0)
    plain, carried = (KINDS[kind](plan) for kind in ("sgd", "momentum"))
    public = carried.public(1)
    assert plain.last(plain.public(1)) is None
    assert carried.last(public) == public[1] + carried.plan.factor_bits
    assert KINDS["adam"](plan).last(KINDS["adam"](plan).public(1)) is None


def test_steps_move_weights_by_their_sums_and_by_noise_in_squares():
    rule = KINDS["sgd"](plan_of(noise_multiplier=1.0))
    pull, noise = rule.largest_pull, rule.largest_noise
    assert UpdateRule.moved(rule, [1.0]) == pytest.approx(pull + noise)
    assert UpdateRule.moved(rule, [1.0, 0.5]) == pytest.approx(1.5 * pull + 1.25**0.5 * noise)
    assert KINDS["adam"](plan_of(noise_multiplier=1.0)).largest_noise == 0.0


def test_adam_takes_noise_from_its_second_moment_only_if_there_is_any():
    noisy, clear = (KINDS[kind](plan_of(noise_multiplier=1.0)) for kind in [*KINDS][2:])
    _, _, lifted, floor = noisy.public(1)
    assert lifted > floor > 0
    _, _, lifted, floor = clear.public(1)
    assert lifted == floor


def test_a_rule_keeps_nothing_unless_it_says_so():
    assert UpdateRule.names_of(None) == []
    with registered():
        assert all(issubclass(rule, UpdateRule) for rule in RULES.values())


def test_settings_are_taken_from_a_constructors_arguments():
    given = {"lr": 0.5, "noise_multiplier": 2.0, "sample_rate": 0.5, "steps": 3}
    found = ScriptTraining.of({**given, "model": object(), "self": None})
    assert {name: getattr(found, name) for name in given} == given
    assert found.model == ScriptTraining.model
    assert (found.bias_bits, ScriptTraining.of({**given, "bias_scale": 0.25}).bias_bits) == (0, 2)
