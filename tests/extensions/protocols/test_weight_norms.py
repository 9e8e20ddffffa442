"""How far hidden weights may move: behind guards a wider bound costs the guarantee nothing."""

from dataclasses import replace

import pytest

from extensions.protocols.optimizer import rule_of
from extensions.runs.config import TrainConfig
from tests.helpers.refused import refused

FEATURES = 784
CONFIG = TrainConfig(
    model="cnn",
    classes=10,
    loss="softmax",
    noise_multiplier=1.0,
    delta=1e-6,
    sample_rate=0.03,
    steps=500,
    lr=20.0,
    max_grad_norm=0.1,
    max_feature_norm=10.0,
    frac_bits=16,
)


def plan(config):
    return rule_of(config, config.network(FEATURES), 2100, 1800.0).plan


@pytest.mark.parametrize("model", ["cnn", "lenet", "mlp:64,32"])
def test_a_run_that_goes_further_takes_a_wider_bound(model):
    config = replace(CONFIG, model=model)
    with refused("learning_rate", "value", value=20.0):
        plan(config)
    wide = plan(replace(config, max_weight_norm=4000.0))
    near = plan(replace(config, steps=50))
    assert 300 < wide.largest_pull * 500 < 3000
    assert wide.eta == near.eta
    assert wide.sigma == near.sigma


def test_gradients_are_guarded_within_the_same_limits_whatever_the_bound():
    wide, near = (
        plan(replace(CONFIG, steps=50, max_weight_norm=norm)) for norm in (16384.0, 400.0)
    )
    for mine, other in zip(wide.layers, near.layers, strict=True):
        assert (mine.reach, mine.delta_norm) == (other.reach, other.delta_norm)
        assert (mine.guard is None) == (other.guard is None)
        if mine.guard is not None:
            assert mine.guard.limit == other.guard.limit
            assert mine.guard.reach > other.guard.reach
