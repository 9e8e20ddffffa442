"""A secure run of a convolutional network goes where the same run in the clear goes."""

from pathlib import Path

import numpy as np
import pytest

from extensions.data.datasets import write_parts
from extensions.runs.config import TrainConfig
from tests.conftest import Pools
from tests.helpers.bars import bars
from tests.helpers.trajectories import beside_the_clear, flat_model

PARTIES, RECORDS, SIDE, STEPS = 3, 30, 16, 30
CONFIG = TrainConfig(
    parties=PARTIES,
    provider="tfp",
    model="cnn",
    classes=10,
    loss="softmax",
    noise_multiplier=1.0,
    delta=1e-5,
    sample_rate=0.2,
    max_grad_norm=0.5,
    max_feature_norm=8.0,
    lr=0.25,
    steps=STEPS,
    insecure_seed=5,
)


@pytest.mark.long
def test_thirty_steps_of_a_cnn_are_those_in_the_clear(pools: Pools, tmp_path: Path):
    """By the same coins all weights are the same after every step, bit for bit.

    By others they are apart by 2 ulps a step at most: all in the first steps, then most. For where
    what an activation is given lies within ulps of a knot, or two values of a window within ulps of
    each other, hosts may take either side, and one record's gradient with it: every few steps some
    weights are some dozens of ulps further apart then, a thousandth of their way.
    """
    parts = bars(PARTIES, RECORDS, SIDE, CONFIG.max_feature_norm)
    coins = tmp_path / "coins"
    first, *others = pools.run(
        PARTIES,
        "tests.helpers.trajectories:in_crypten",
        config=CONFIG,
        files=write_parts(parts, tmp_path),
        steps=STEPS,
        coins=coins,
    )
    rows = beside_the_clear(CONFIG, parts, first, coins, every=1)
    assert [row["step"] for row in rows] == list(range(1, STEPS + 1))
    assert all(row["farthest by the same coins, ulps"] == 0 for row in rows)
    assert all(row["within 2 ulps a step by others, %"] > 80.0 for row in rows)
    assert all(row["apart, % of their way"] < 1.0 for row in rows)
    farthest = [0, *(row["farthest, ulps"] for row in rows)]
    assert farthest[1] > 0
    assert sum(growth <= 2 for growth in np.diff(farthest)) >= STEPS // 2
    for other in others:
        np.testing.assert_array_equal(flat_model(other[-1]), flat_model(first[-1]))
