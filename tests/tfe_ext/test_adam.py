"""Adam of Keras scripts: steps of the clear ring, in exactly so many rounds and bytes."""

from typing import Any

import numpy as np
import pytest

from extensions.privacy.accounting import epsilon
from extensions.privacy.gaussian_table import failure_bound
from extensions.privacy.randomness import InsecureSeededSource
from extensions.privacy.sampling import OVERFLOW_PROBABILITY, check_records
from extensions.protocols.optimizer import multipliers
from extensions.ring.fixed_point import decode, encode
from extensions.runs.clear_host import ClearHost
from extensions.runs.config import TrainConfig
from tests.helpers.trajectories import trajectory
from tests.tfe_ext.test_keras import (
    CLASSES,
    COSTS,
    FEATURES,
    LINEAR_SENT,
    NOISE,
    RATE,
    SEED,
    SERVERS,
    F,
    owned_records,
)

TASKS = "tests.helpers.tfe_tasks.adam"
LR, STEPS, CLIP = 0.05, 4, 0.7
PARAMETERS = CLASSES * (FEATURES + 1)
ROUNDS, EACH = 19, 216
"""What moments add to the rounds of a step, and for each weight to the bytes of servers 0 and 1."""
COST = {
    "DPAdam": (COSTS["linear"], LINEAR_SENT, 25720),
    "Adam": (COSTS["SGD"], [15496, 15496, 53472], 25768),
}
"""Rounds of steps without moments, bytes of each server, and what moments add to server 2's."""
OPTIONS: dict[str, dict[str, Any]] = {
    "DPAdam": {
        "l2_norm_clip": CLIP,
        "noise_multiplier": NOISE,
        "sample_rate": RATE,
        "beta_1": 0.75,
        "beta_2": 0.9,
    },
    "Adam": {"sample_rate": RATE, "beta_1": 0.75, "beta_2": 0.9},
}


@pytest.mark.parametrize(
    "task",
    [
        pytest.param("moments_go_on_from_checkpoints", marks=pytest.mark.long),
        "whatever_goes_on_is_restored",
        "moments_are_never_zero_by_mistake",
        "wrong_adam_is_refused",
    ],
)
def test_property_of_adam(tfe_process, task):
    tfe_process.run(f"{TASKS}:{task}")


def in_the_clear(kind: str, weight: np.ndarray, bias: np.ndarray) -> list[list[np.ndarray]]:
    """Returns the models after each step of the same run, with the same sampling and noise."""
    config = TrainConfig(
        backend="clear",
        parties=SERVERS,
        classes=CLASSES,
        optimizer="adam",
        beta1=OPTIONS[kind].get("beta_1", 0.9),
        beta2=OPTIONS[kind].get("beta_2", 0.999),
        private=kind == "DPAdam",
        noise_multiplier=NOISE if kind == "DPAdam" else None,
        delta=1e-5 if kind == "DPAdam" else None,
        max_grad_norm=CLIP,
        sample_rate=RATE,
        steps=STEPS,
        lr=LR,
        lr_schedule="linear",
        frac_bits=F,
    )
    records = [
        check_records(part["x"], part["y"], frac_bits=F, classes=CLASSES, max_feature_norm=1.0)
        for part in owned_records()
    ]
    source = InsecureSeededSource(SEED)
    host = ClearHost(F, parties=SERVERS, owners=SERVERS, source=source)
    start = [encode(part, F) for part in (weight, bias)]
    models = trajectory(host, config, records, start, range(1, STEPS + 1))
    return [[decode(part, F) for part in model] for model in models]


@pytest.mark.parametrize("kind", ["DPAdam", pytest.param("Adam", marks=pytest.mark.long)])
def test_steps_are_those_of_the_clear_ring(tfe_process, kind):
    """Rates fall in one graph; roundings of small second moments move steps by less than 1 %.

    What moments take does not depend on the batch.
    """
    draws = np.random.default_rng(5)
    weight = draws.integers(-1024, 1025, (CLASSES, FEATURES)) / 2**10
    bias = draws.integers(-512, 513, CLASSES) / 2**10
    result = tfe_process.run(
        f"{TASKS}:train",
        parts=[{key: value.tolist() for key, value in part.items()} for part in owned_records()],
        weight=weight.tolist(),
        bias=bias.tolist(),
        kind=kind,
        rates=[LR * one for one in multipliers("linear", STEPS)],
        seed=SEED,
        options=OPTIONS[kind],
    )
    before = [weight, bias]
    for found, want in zip(result["after"], in_the_clear(kind, weight, bias), strict=True):
        for part, wanted, was in zip(found, want, before, strict=True):
            np.testing.assert_allclose(part, wanted, atol=0.01 * LR)
            assert np.abs(wanted - was).max() > 0.1 * LR
        before = want
    assert result["outside"] == 0
    assert result["graphs"] == 0, "traced after the first step"
    rounds, sent, last = COST[kind]
    assert result["rounds"] == rounds + ROUNDS
    added = [EACH * PARAMETERS, EACH * PARAMETERS, last]
    assert result["sent"] == [one + more for one, more in zip(sent, added, strict=True)]
    if kind == "DPAdam":
        failure = failure_bound(SERVERS * PARAMETERS * STEPS)
        spent = epsilon(
            noise_multiplier=NOISE,
            sample_rate=RATE,
            steps=STEPS,
            delta=1e-5,
            overflow_probability=OVERFLOW_PROBABILITY + failure,
        )
        assert result["epsilon"] == pytest.approx(spent, rel=1e-9)
