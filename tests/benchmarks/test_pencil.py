"""Pencil in figures: what a step costs, what is learnt, and what reused masks tell."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.__main__ import Benchmarks
from benchmarks.network import link
from benchmarks.pencil.accuracy import CASES, OWNERS, in_the_clear, not_private
from benchmarks.pencil.command import FRAC_BITS, RING_BITS, row_of
from benchmarks.pencil.reused_masks import recovered, seen
from benchmarks.pencil.training import Case
from benchmarks.pencil.training import row_of as row_of_step
from extensions.data.origin import FeatureExtraction, Origin
from tests.helpers.refused import refused


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
    with refused("steps", "range", value=2):
        recovered(view, 59)


@pytest.mark.parametrize(
    ("words", "argument", "code", "value"),
    [
        (["--masks", "2"], "masks", "conflict", [2]),
        (["--data", "mnist"], "data", "conflict", "mnist"),
        (["--accuracy", "--data", "imdb"], "data", "choice", "imdb"),
        (["--attack", "--accuracy"], "accuracy", "conflict", True),
    ],
)
def test_options_without_a_use_are_refused(words, argument, code, value):
    with refused(argument, code, value):
        Benchmarks.call("benchmarks", "pencil", *words)


@pytest.mark.long
def test_a_step_is_measured_on_every_network():
    """Of a small model; rows pad the batch, and all that is told is more than nothing."""
    networks = {"LAN": link("loopback"), "WAN": link("loopback", delay_ms=50.0)}
    case = Case("a task", "mlp:4", 8, 1.0, 1.0, 1.0, records=160)
    row, states = row_of_step(case, batch=16, steps=1, networks=networks)
    assert row["rows"] > row["batch"] == 16
    assert row["samples/h, LAN"] > row["samples/h, WAN"] > 0
    assert row["epsilon of these steps"] == pytest.approx(2.0, abs=0.01)
    assert states["WAN"]["round trip ms"] > 100
    plain, _ = row_of_step(case._replace(clips=False), batch=16, steps=1, networks=networks)
    assert plain["epsilon of these steps"] == "none"
    assert plain["MB a sample"] < row["MB a sample"]
    assert plain["rounds a step"] < row["rounds a step"]


def test_without_privacy_more_is_learnt_than_with_little(parts):
    case = CASES["digits"][0]
    private = in_the_clear(replace(case, cost=replace(case.cost, epsilon=0.5)), parts, 10)
    assert len(private) == case.learning.rounds
    assert not_private(case, parts, 10)[-1] > 0.85 > private[-1]


@pytest.fixture(scope="module")
def parts():
    return FeatureExtraction().extract(Origin(data="digits").read(OWNERS), lambda *_: None)
