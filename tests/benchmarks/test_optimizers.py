"""The benchmarks of optimizers and losses learn, and leave out what bounds refuse."""

from dataclasses import replace

import numpy as np

from benchmarks.steps.losses import COMPARED, accuracy_rows, inner
from benchmarks.steps.optimizers import EVERY, accuracy, chosen, curve
from extensions.data.datasets import load
from extensions.privacy.sampling import check_records
from extensions.ring.fixed_point import encode
from extensions.runs.config import TrainConfig

CONFIG = TrainConfig(backend="clear", noise_multiplier=0.1, delta=1e-5, steps=2 * EVERY, lr=8.0)


def test_a_curve_has_a_point_every_so_many_steps_and_rises():
    """With all records in each step noise alone tells runs apart: 3.1 points rise, by 0.2."""
    first, last = curve(replace(CONFIG, sample_rate=1.0), load("digits", None, 0))
    assert 20.0 < first < last < 100.0
    assert last > 60.0


def test_accuracy_is_the_part_that_is_right():
    """A weight that reads the class off the first features gets all right but one of eight."""
    x, y = np.eye(3, 5)[np.arange(8) % 3], np.arange(8) % 3
    y[0] = 1
    tried = check_records(x, y, frac_bits=20, classes=3, max_feature_norm=1.0)
    model = [(encode(np.eye(3, 5), 20), encode(np.zeros(3), 20))]
    assert accuracy(replace(CONFIG, classes=3), model, tried) == 87.5


def test_rates_beyond_bounds_are_left_out():
    split = inner(load("digits", None, 0))
    config = replace(CONFIG, model="mlp:2", steps=EVERY)
    assert chosen(config, split, (1e3, 0.5, 2e3), trials=1).lr == 0.5


def test_each_compared_loss_has_a_row_and_learns():
    split = inner(load("digits", None, 0))
    config = replace(CONFIG, noise_multiplier=1.0)
    rows = accuracy_rows("digits", split, config, rates=(4.0,), runs=2, trials=1)
    assert [row["loss"] for row in rows] == [*COMPARED]
    assert all(row["accuracy, %"] > 60.0 for row in rows)
