"""Protocol 5 between programs: all stop alike, before anything is shared, where one differs."""

from dataclasses import replace

import numpy as np
import pytest

from extensions.data.datasets import load, split_among
from extensions.runs.checkpoints import CheckpointOptions
from extensions.runs.config import TrainConfig
from extensions.runs.options import RunOptions
from tests.helpers.seated import refusals

CONFIG = TrainConfig(backend="clear", parties=2, steps=3, noise_multiplier=1.0, delta=1e-5)
NOTHING = RunOptions()


@pytest.fixture(scope="module")
def parts():
    return split_among(load("digits", None, 0), 2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lr": 2.0}, "lr = 10 at party 0, 2 at party 1"),
        ({"noise_multiplier": 2.0}, "noise_multiplier = 1 at party 0, 2 at party 1"),
        ({"model": "mlp:4", "lr": 10.0}, "model = 'logistic' at party 0, 'mlp:4' at party 1"),
        (
            {"whiten": True, "noise_multiplier_whiten": 4.0},
            "noise_multiplier_whiten = None at party 0, 4 at party 1",
        ),
        ({"private": False}, "no_dp = False at party 0, True at party 1"),
    ],
)
def test_a_setting_that_decides_what_is_computed_is_named(parts, changes, message):
    others = replace(CONFIG, **changes)
    found = refusals([(CONFIG, NOTHING, parts[0]), (others, NOTHING, parts[1])])
    assert [text.startswith(message) for text in found] == [True, True]


def test_either_all_keep_checkpoints_or_none(parts, tmp_path):
    keeping = RunOptions(checkpoints=CheckpointOptions(folder=tmp_path))
    found = refusals([(CONFIG, NOTHING, parts[0]), (CONFIG, keeping, parts[1])])
    assert [text.startswith("checkpoints = False at party 0, True") for text in found] == [True] * 2


@pytest.mark.parametrize("which", ["train_x", "test_x"])
def test_records_of_one_party_that_do_not_fit_stop_all(parts, which):
    """Held-out records too, though they are shared at the end only."""
    bad = replace(parts[1], **{which: getattr(parts[1], which) * np.nan})
    mine, others = refusals([(CONFIG, NOTHING, parts[0]), (CONFIG, NOTHING, bad)])
    assert mine.startswith("records = 'refused by party 1'")
    assert others.startswith("features = 'row 0, column 0': data")
