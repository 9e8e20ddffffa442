"""A secure run of a convolutional network goes where the same run in the clear goes."""

import numpy as np
import pytest

from benchmarks.steps.models.trajectory import measured
from extensions.runs.config import TrainConfig
from tests.helpers.bars import bars

PARTIES, SIDE, STEPS, NORM = 3, 16, 30, 8.0


@pytest.mark.long
def test_thirty_steps_of_a_cnn_are_those_in_the_clear():
    """A step takes all weights, but for two ulps, where it takes them in the clear.

    What an activation is given may lie within ulps of a knot, or two values of a window within ulps
    of each other. Hosts may take either side there, and one record's gradient with it: the weights
    of a run, which each step takes from where it is itself, may so be further from those in the
    clear than the steps' own ulps.
    """
    config = TrainConfig(
        backend="crypten",
        data="bars",
        parties=PARTIES,
        model="cnn",
        classes=10,
        loss="softmax",
        noise_multiplier=1.0,
        delta=1e-5,
        sample_rate=0.2,
        max_grad_norm=0.5,
        max_feature_norm=NORM,
        lr=0.06,
        steps=STEPS,
    )
    rows = measured(config, bars(PARTIES, 30, SIDE, NORM), STEPS, every=1)
    assert [row["step"] for row in rows] == list(range(1, STEPS + 1))
    in_one = np.array([row["farthest in one step, ulps"] for row in rows])
    assert np.all(in_one > 0)
    assert np.mean(in_one <= 2) > 0.8
    assert min(row["within 2 ulps a step, %"] for row in rows) > 90.0
    assert max(row["apart, % of their way"] for row in rows) < 1.0
