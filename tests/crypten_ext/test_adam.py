"""Adam of scripts: steps by moments of the sums that DPSGD adds up, with its accounting."""

import functools
from typing import Any

import numpy as np
import pytest

from extensions.protocols.updates.adam import EPS
from tests.conftest import Pools
from tests.crypten_ext.test_optim import CLASSES, DELTA, FEATURES, RATE, RECORDS, SEED, records

LR, STEPS, PARTIES = 0.05, 3, 2
COMMON: dict[str, Any] = {"lr": LR, "steps": STEPS, "sample_rate": RATE, "seed": SEED}
UNCLIPPED = {"max_grad_norm": 8.0, "noise_multiplier": 0.0}


@functools.cache
def run(pools: Pools, optimizer: str, noisy: bool = False) -> dict[str, Any]:
    # Seed 80: no second moment is just above its least, where one unit of rounding moves the step
    # by 3 %; some are below it.
    draws = np.random.default_rng(80)
    weight = draws.integers(-1024, 1025, (CLASSES, FEATURES)) / 2**10
    options = {**COMMON, "optimizer": optimizer}
    if optimizer == "DPAdam":
        noise = {"max_grad_norm": 0.7, "noise_multiplier": 2.0, "delta": DELTA}
        options |= noise if noisy else UNCLIPPED
    if optimizer == "DPSGD":
        options |= {"max_grad_norm": 0.7, "noise_multiplier": 2.0, "delta": DELTA}
    first, second = pools.run(
        PARTIES,
        "tests.helpers.party_tasks.protocols:train",
        per_party=[records(rank) for rank in range(PARTIES)],
        parameters=[(weight, np.zeros(CLASSES))],
        **options,
    )
    for mine, theirs in zip(first["steps"], second["steps"], strict=True):
        np.testing.assert_array_equal(mine["after"][0], theirs["after"][0])
    return first


@pytest.mark.parametrize("optimizer", ["DPAdam", "Adam"])
def test_steps_are_those_of_adam(pools: Pools, optimizer: str):
    """Without noise, of gradients that nothing clips; the sigmoid is at most 0.0107 off."""
    m = v = 0.0
    b1, b2 = 922 / 1024, 1023 / 1024
    for t, step in enumerate(run(pools, optimizer)["steps"], start=1):
        x, y, padding = step["batch"]
        weight, bias = step["before"]
        inputs = np.hstack([x, np.ones((len(x), 1))])[padding == 0]
        residual = 1 / (1 + np.exp(-inputs @ np.vstack([weight.T, bias]))) - y[padding == 0]
        g = residual.T @ inputs / (RATE * RECORDS * PARTIES)
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g**2
        spread = np.maximum(v / (1 - b2**t), EPS**2)
        want = LR * m / (1 - b1**t) / np.sqrt(spread)
        moved = np.hstack([weight - step["after"][0], (bias - step["after"][1])[:, None]])
        np.testing.assert_allclose(moved, want, atol=0.12 * LR)
        assert np.abs(moved).max() < 1.05 * LR


def test_a_step_takes_19_rounds_more_than_dpsgd_and_the_same_epsilon(pools: Pools):
    adam, sgd = run(pools, "DPAdam", noisy=True), run(pools, "DPSGD")
    last = [found["steps"][-1]["rounds"] for found in (adam, sgd)]
    assert last[0][:-1] == last[1][:-1]
    assert last[0][-1] == last[1][-1] + 19
    assert adam["epsilon"] == sgd["epsilon"]
    moved = adam["steps"][0]["before"][0] - adam["steps"][0]["after"][0]
    assert 0 < np.abs(moved).max() < 10 * LR
