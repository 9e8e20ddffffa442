"""Pencil's Algorithm 3: masks that serve again tell the model, fresh ones do not."""

import numpy as np
import pytest
from typer.testing import CliRunner

from benchmarks.__main__ import app
from benchmarks.pencil.command import FRAC_BITS, RING_BITS, row_of
from benchmarks.pencil.reused_masks import recovered, seen
from extensions.errors import ArgumentError


@pytest.mark.parametrize(("masks", "scalar_bits"), [(2, FRAC_BITS), (3, RING_BITS)])
def test_one_data_owner_recovers_every_weight_behind_reused_masks(masks, scalar_bits):
    assert row_of(masks, scalar_bits, fresh=False)["recovered, %"] == 100


def test_behind_fresh_masks_it_recovers_none():
    assert row_of(2, FRAC_BITS, fresh=True)["recovered, %"] == 0


def test_what_is_sent_is_uniform_in_each_step():
    """The attack needs several steps: one says nothing, by Pearson's test of 16 classes."""
    sent = seen(np.ones((1, 16_000), dtype=np.int64), masks=2, scalar_bits=59, bits=59).sent
    counts = np.bincount((sent[0] >> 55).astype(int), minlength=16)
    # chi-square of 15 degrees of freedom is above 60 with a probability of 2e-7.
    assert ((counts - 1000) ** 2 / 1000).sum() < 60


def test_steps_that_tell_masks_not_apart_are_refused():
    view = seen(np.zeros((2, 5), dtype=np.int64), masks=3, scalar_bits=25, bits=59)
    with pytest.raises(ArgumentError, match="steps = 2: must be more"):
        recovered(view, 59)


def test_masks_without_an_attack_are_refused():
    assert CliRunner().invoke(app, ["pencil", "--masks", "2"]).exit_code != 0
