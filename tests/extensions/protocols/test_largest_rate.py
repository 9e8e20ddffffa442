"""An error of a rate that is too high names the largest one that is taken."""

import re
from dataclasses import replace

import pytest

from extensions.errors import ArgumentError, GradientError
from extensions.protocols.drift import Drift, with_largest_rate
from extensions.protocols.records import Records
from extensions.protocols.step import Step
from extensions.protocols.updates import SGDRule
from extensions.runs.config import TrainConfig
from tests.helpers.strategies import MODELS, plan_of

FEATURES = 784
CONFIG = TrainConfig(
    loss="sigmoid",
    noise_multiplier=1.0,
    delta=1e-6,
    sample_rate=0.1,
    steps=40,
    lr=900.0,
    frac_bits=16,
)
MOVED = [
    {"model": "mlp:32"},
    {"model": "mlp:32", "lr": 1e11},
    {"model": "mlp:64,32", "loss": "softmax", "momentum": 0.9},
    {"model": "cnn", "max_grad_norm": 8.0, "max_feature_norm": 8.0},
    {"model": "lenet", "max_weight_norm": 4000.0, "noise_multiplier": 8.0},
    {"model": "mlp:32", "steps": 1000, "sample_rate": 1.0},
    {"model": "mlp:32", "lr_schedule": "linear"},
    {"model": "mlp:32", "lr_schedule": "cosine", "average": 0.4, "momentum": 0.5},
    {"model": "mlp:32", "optimizer": "adam"},
]
BEYOND_THE_RING = [
    {"model": "logistic", "lr": 1e12, "frac_bits": 20},
    {"model": "logistic", "lr": 1e12, "momentum": 0.5},
    {"model": "logistic", "loss": "least-squares", "lr": 1e4, "frac_bits": 20},
    {"model": "logistic", "optimizer": "adam", "lr": 1e11},
    {"model": "logistic", "average": 0.4, "lr": 1e12},
]


def named(error: Exception) -> float:
    (rate,) = re.findall(r"The largest learning rate that is taken is (\S+)\.$", str(error))
    return float(rate)


def made(changes: dict[str, object]) -> None:
    Step.of(replace(CONFIG, **changes), Records((), (600, 600, 600), FEATURES))


@pytest.mark.parametrize("changes", [*MOVED, *BEYOND_THE_RING], ids=str)
def test_the_rate_that_is_named_is_taken_and_one_a_hundredth_above_is_not(changes):
    with pytest.raises(ArgumentError) as caught:
        made(changes)
    rate = named(caught.value)
    assert 0 < rate < changes.get("lr", CONFIG.lr)
    assert named(caught.value) == named(caught.value.of("lr"))
    made({**changes, "lr": rate})
    with pytest.raises(ArgumentError):
        made({**changes, "lr": 1.01 * rate})


@pytest.mark.parametrize(
    "changes",
    [
        {"model": "mlp:32", "max_grad_norm": 2.0**-12},
        {"model": "mlp:32", "lr": 2.0**-39},
        {"model": "lenet", "frac_bits": 24, "max_feature_norm": 60.0},
    ],
    ids=str,
)
def test_no_rate_is_named_where_none_helps(changes):
    with pytest.raises(ArgumentError) as caught:
        made(changes)
    assert "largest learning rate" not in str(caught.value)


def test_notes_of_an_error_stay():
    with pytest.raises(ArgumentError) as caught:
        made({"model": "logistic", "loss": "least-squares", "lr": 1e4, "frac_bits": 20})
    (note,) = caught.value.__notes__
    assert note.startswith("In 40 steps weights and residuals may grow")


@pytest.mark.parametrize("made_before", [0, 40])
@pytest.mark.parametrize("noise", [0.0, 3.0])
def test_steps_that_follow_others_are_told_what_is_left(made_before, noise):
    drift = Drift(400.0)
    before = SGDRule(plan_of(MODELS["hidden"], learning_rate=0.5, noise_multiplier=noise))
    drift.count(before, made_before)

    def check(rate: float) -> None:
        plan = plan_of(MODELS["hidden"], learning_rate=rate, noise_multiplier=noise)
        drift.check(SGDRule(plan), 100)

    with pytest.raises(GradientError) as caught:
        with_largest_rate(50.0, check)
    rate = named(caught.value)
    check(rate)
    with pytest.raises(GradientError):
        check(1.01 * rate)


def test_a_rate_that_fits_is_tried_once():
    tried = []
    with_largest_rate(3.0, tried.append)
    assert tried == [3.0]
