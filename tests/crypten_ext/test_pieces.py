"""Batches of scripts in pieces: the step of the whole, with its one noise and its one charge."""

import re

import numpy as np
import pytest

from tests.conftest import Pools
from tests.helpers.party_tasks.pieces import MISUSES

TASKS = "tests.helpers.party_tasks.pieces"
MESSAGES = {
    "left_out": "Piece 1 of a batch is due, and this is piece 2",
    "left_in_the_middle": "Piece 2 of a batch is due",
    "cut_otherwise": "Piece 2 of a batch is due, and this is piece 2, .*cut otherwise",
    "used_whole_too": "batch was used for an earlier step",
    "pieces_of_pieces": "x is the features of a batch, not part of a whole batch",
    "targets_of_another_batch": "y is the targets of a batch, not those of the batch of x",
    "features_as_targets": "y is the features of a batch, not those of the batch of x",
    "targets_as_features": "x is the targets of a batch, not the features of a batch",
    "changed_between_pieces": "x is changed since it was the features of a batch, not what it was",
    "saved_in_the_middle": "Only some pieces.*Save after a step",
    "no_rows": "rows = 0:",
}


def test_pieces_are_the_step_of_the_whole(pools: Pools):
    """Noise is that of the seed, drawn once a step; each piece is rounded within its ulps."""
    found, other = pools.run(2, f"{TASKS}:trained")
    (whole, ledger), *others = found.values()
    for model, spent in others:
        assert spent == ledger
        for part, want in zip(model, whole, strict=True):
            assert np.abs(want).max() > 0.05
            np.testing.assert_allclose(part, want, atol=2.0**-12)
    for mine, theirs in zip(found["pieces"][0], other["pieces"][0], strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.fixture(scope="module")
def misused(pools: Pools) -> dict[str, tuple[str, str]]:
    return pools.run(2, f"{TASKS}:misused")[0]


@pytest.mark.parametrize("name", MISUSES)
def test_a_piece_out_of_its_place_is_refused(misused, name):
    assert re.search(MESSAGES[name], misused[name][1]), misused[name]
