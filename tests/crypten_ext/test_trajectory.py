"""A secure run of a convolutional network goes where the same run in the clear goes."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.steps.models.same_seeds import flat_model
from benchmarks.steps.models.trajectory import beside_the_clear
from extensions.owners.data import write_parts
from extensions.runs.config import TrainConfig
from tests.conftest import Pools
from tests.helpers.bars import bars

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
    """Weights are apart by 2 ulps a step at most: all of them in the first steps, then most.

    For where what an activation is given lies within ulps of a knot, or two values of a window
    within ulps of each other, hosts may take either side, and one record's gradient with it: every
    few steps some weights are some dozens of ulps further apart then, a thousandth of their way.
    """
    parts = bars(PARTIES, RECORDS, SIDE, CONFIG.max_feature_norm)
    first, *others = pools.run(
        PARTIES,
        "benchmarks.steps.models.trajectory:in_crypten",
        config=CONFIG,
        files=write_parts(parts, tmp_path),
        steps=STEPS,
    )
    rows = beside_the_clear(CONFIG, parts, first, every=1)
    assert [row["step"] for row in rows] == list(range(1, STEPS + 1))
    assert all(row["within 2 ulps a step, %"] > 80.0 for row in rows)
    assert all(row["apart, % of their way"] < 1.0 for row in rows)
    farthest = [0, *(row["farthest, ulps"] for row in rows)]
    assert sum(growth <= 2 for growth in np.diff(farthest)) >= STEPS // 2
    in_one = np.array([row["farthest in one step, ulps"] for row in rows])
    assert np.all(in_one > 0)
    assert np.mean(in_one <= 2) > 0.8
    for other in others:
        np.testing.assert_array_equal(flat_model(other[-1]), flat_model(first[-1]))
