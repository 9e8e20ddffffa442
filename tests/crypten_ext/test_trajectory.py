"""A secure run of a convolutional network goes where the same run in the clear goes."""

from typing import Any

import numpy as np
import pytest

from extensions.privacy.randomness import InsecureSeededSource
from extensions.privacy.sampling import check_records
from extensions.protocols.pea import public_start
from extensions.runs.clear_host import ClearHost
from extensions.runs.config import TrainConfig
from tests.conftest import Pools
from tests.helpers.trajectories import trajectory

PARTIES, RECORDS, SIDE, STEPS, SEED = 3, 30, 16, 30, 5
CONFIG: dict[str, Any] = {
    "parties": PARTIES,
    "model": "cnn",
    "classes": 10,
    "loss": "softmax",
    "noise_multiplier": 1.0,
    "delta": 1e-5,
    "sample_rate": 0.2,
    "max_grad_norm": 0.5,
    "max_feature_norm": 8.0,
    "lr": 0.25,
    "steps": STEPS,
}


def parts() -> list[tuple[np.ndarray, np.ndarray]]:
    """Images in which bars lie where their classes say, a part a party."""
    found = []
    for rank in range(PARTIES):
        draws = np.random.default_rng(rank)
        y = np.arange(RECORDS) % 10
        x = draws.normal(0, 1, (RECORDS, SIDE, SIDE))
        for image, label in zip(x, y, strict=True):
            image[label : label + 5] += 2.0
        x = x.reshape(RECORDS, -1)
        found.append((8.0 * x / np.linalg.norm(x, axis=1, keepdims=True), y))
    return found


@pytest.mark.long
def test_thirty_steps_of_a_cnn_are_those_in_the_clear(pools: Pools):
    """Weights are apart by 2 ulps a step at most: all of them in the first steps, then most.

    For where what an activation is given lies within ulps of a knot, or two values of a window
    within ulps of each other, hosts may take either side, and one record's gradient with it: every
    few steps some weights are some dozens of ulps further apart then, a thousandth of their way.
    """
    first, *others = pools.run(
        PARTIES,
        "tests.helpers.party_tasks.trajectories:models",
        config=CONFIG,
        parts=parts(),
        seed=SEED,
    )
    config = TrainConfig(**CONFIG)
    records = [
        check_records(x, y, frac_bits=config.frac_bits, classes=10, max_feature_norm=8.0)
        for x, y in parts()
    ]
    source = InsecureSeededSource(SEED)
    host = ClearHost(config.frac_bits, parties=PARTIES, owners=PARTIES, source=source)
    clear = trajectory(host, config, records, public_start(config, SIDE**2))
    start = clear[0]
    assert len(first) == len(clear) == STEPS
    farthest = [0.0]
    for t, (found, wanted) in enumerate(zip(first, clear, strict=True), start=1):
        apart = np.abs(flat(found) - flat(wanted))
        farthest.append(apart.max())
        assert np.mean(apart <= 2 * t) > 0.8
        moved = np.linalg.norm(flat(wanted) - flat(start))
        assert t == 1 or np.linalg.norm(apart) < 0.01 * moved
    assert sum(growth <= 2 for growth in np.diff(farthest)) >= STEPS // 2
    for other in others:
        np.testing.assert_array_equal(flat(other[-1]), flat(first[-1]))


def flat(model: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([part.ravel() for part in model]).astype(np.float64)
