"""Softmax is near what it stands for, and its residual bounded, for all logits and roundings."""

import math

import numpy as np
import pytest

from extensions.layers.activations import activate, sigmoid
from extensions.layers.chain import Network
from extensions.layers.losses import LOSSES, residual, residual_norm
from extensions.layers.softmax import (
    EXPONENTIAL_ERROR,
    LARGEST,
    MAX_ERROR,
    RECIPROCAL_ERROR,
    exponential,
    reciprocal,
    softmax,
    weight_bits,
)
from extensions.protocols.dpsgd_plan import MIN_TRAINING_BITS
from extensions.ring.clear import ClearRing
from extensions.ring.fixed_point import Integers, decode, encode
from extensions.runs.config import TrainConfig
from extensions.runs.manifest import comparable_settings
from tests.extensions.layers.test_activations import exact
from tests.helpers.reference_softmax import softmax_interval, true_softmax
from tests.helpers.refused import refused
from tests.helpers.strategies import PRESETS, ROUNDINGS

CLASSES = (3, 10, 128)
SQUARED_ERROR = RECIPROCAL_ERROR**2
"""Of the reciprocal after a step of Newton's iteration."""
roundings = pytest.mark.parametrize("rounding", ROUNDINGS)
sizes = pytest.mark.parametrize("classes", [2, *CLASSES])
bits = pytest.mark.parametrize("frac_bits", [MIN_TRAINING_BITS, 20])


def logits_of(classes: int, frac_bits: int) -> Integers:
    """Returns rows of every spread: equal ones, one or several far ahead, far out on both sides."""
    draws, rows = np.random.default_rng(classes), 18_000 // classes
    ahead = draws.normal(size=(rows, classes))
    ahead[np.arange(rows), draws.integers(0, classes, rows)] += draws.uniform(0, 16, rows)
    parts = [draws.normal(0, scale, (rows, classes)) for scale in (0.0, 0.3, 1.0, 3.0, 40.0)]
    sides = draws.choice([-1.0, 1.0], (rows, classes)) * draws.choice([7.0, 500.0], (rows, 1))
    return encode(np.concatenate([ahead, *parts, sides, 1e3 + parts[1]]), frac_bits)


@pytest.mark.parametrize("classes", CLASSES)
@pytest.mark.parametrize("frac_bits", [8, *PRESETS, 24])
def test_the_two_functions_are_as_near_as_they_say(classes, frac_bits):
    function, scale = exponential(classes), classes * 2.0**frac_bits
    x = np.rint(np.linspace(-30.0, 16.0, 100_001) * scale).astype(np.int64)
    value = np.ldexp(exact(function, x, frac_bits)[0], -frac_bits - function.slope_bits)
    want = np.exp(np.minimum(x / scale, LARGEST))
    apart = np.abs(value - want) / np.maximum(want, 1.0)
    assert EXPONENTIAL_ERROR < apart.max() < 0.0425 + 2.0**-frac_bits
    assert (np.diff(value) >= 0).all()
    assert value.min() == 0
    inverse, unit = reciprocal(classes), weight_bits(classes)
    highest = classes * math.exp(LARGEST) * (1 - EXPONENTIAL_ERROR)
    lowest = classes * (1 - 2 * EXPONENTIAL_ERROR - 2.0**-unit)
    total = np.geomspace(lowest, highest, 100_001)
    sums = np.ceil(np.ldexp(total, unit)).astype(np.int64)
    product = np.ldexp(
        sums * np.ldexp(exact(inverse, sums, unit)[0], -inverse.slope_bits), -2 * unit
    )
    assert np.abs(product - 1).max() < RECIPROCAL_ERROR


@sizes
@bits
@roundings
def test_probabilities_are_near_and_their_residual_bounded(classes, frac_bits, rounding):
    ring, ulp = ClearRing(frac_bits, rounding=rounding, seed=1), 2.0**-frac_bits
    logits = logits_of(classes, frac_bits)
    found = decode(softmax(ring, logits), frac_bits)
    near = MAX_ERROR if classes > 2 else 0.0107
    cut = LARGEST if classes > 2 else math.inf
    apart = np.abs(found - true_softmax(decode(logits, frac_bits), cut))
    assert apart.max() <= near + ulp
    total = found.sum(axis=1)
    assert total.max() <= 1 + classes * ulp
    assert total.min() >= 1 - SQUARED_ERROR - 2 * classes * ulp
    assert found.min() >= (0.0 if classes > 2 else -(2.0**-13) - ulp)
    draws = np.random.default_rng(1)
    worst = np.where(found >= found.max(axis=1, keepdims=True), 0, 1)
    random = np.eye(classes)[draws.integers(0, classes, len(logits))]
    for targets in (worst, random, np.ones_like(random)):
        apart = residual(ring, "softmax", logits, encode(targets, frac_bits))
        norms = np.linalg.norm(decode(apart, frac_bits), axis=1)
        assert norms.max() <= residual_norm("softmax", classes)
    if classes > 2:
        low, high = softmax_interval(logits, frac_bits)
        assert ((low <= found) & (found <= high)).all()


@pytest.mark.parametrize("classes", CLASSES)
def test_equal_logits_are_equally_likely_and_a_common_shift_changes_nothing(classes):
    ring = ClearRing(20, rounding="floor")
    zero = np.zeros((1, classes), dtype=np.int64)
    found = decode(softmax(ring, zero), 20)
    assert np.ptp(found) == 0
    assert abs(found[0, 0] * classes - 1) < SQUARED_ERROR + 2 * classes * 2.0**-20
    logits = logits_of(classes, 20)[:500]
    shifted = logits + np.arange(500)[:, None] * 12_345
    np.testing.assert_array_equal(softmax(ring, logits), softmax(ring, shifted))


@pytest.mark.parametrize("classes", CLASSES)
def test_the_residual_of_a_confident_row_goes_to_zero(classes):
    """But for the other classes' exponentials, 1 each at most, in a sum above 4,000."""
    ring, row = ClearRing(20, rounding="floor"), np.zeros((1, classes))
    for ahead in (9.0, 20.0, 60.0):
        row[0, 0] = ahead * classes / (classes - 1)
        found = decode(softmax(ring, encode(row, 20)), 20)
        assert abs(found[0, 0] - 1) < (classes - 1) / 4000 + SQUARED_ERROR + 2.0**-18
    assert found[0, 1:].max() < 1 / 4000


@pytest.mark.parametrize("classes", CLASSES)
def test_entries_far_above_the_mean_are_told_apart(classes):
    """Deep models' logits go that far: of two that are cut off neither is held back."""
    row = np.full((1, classes), -21.0 / (classes - 2))
    row[0, :2] = (12.0, 9.0)
    found = decode(softmax(ClearRing(20, rounding="floor"), encode(row, 20)), 20)
    assert abs(found[0, 0] - 1 / (1 + math.exp(-3.0))) < MAX_ERROR


def test_of_two_classes_it_is_the_sigmoid_of_their_difference():
    ring, logits = ClearRing(20, rounding="floor"), logits_of(2, 20)
    found = softmax(ring, logits)
    want, _ = activate(ring, logits[:, 1] - logits[:, 0], sigmoid())
    np.testing.assert_array_equal(found[:, 1], want)
    assert (found.sum(axis=1) == 1 << 20).all()


@pytest.mark.parametrize("classes", [0, 1, 129])
def test_other_numbers_of_classes_are_refused(classes):
    with refused("classes", "range", value=classes):
        softmax(ClearRing(20), np.zeros((3, classes), dtype=np.int64))
    with refused("classes", "range", classes):
        Network.dense(widths=(4, classes), activations=(), has_bias=(True,), loss="softmax")


def test_the_loss_is_a_setting_that_parties_share():
    assert TrainConfig(private=False).loss == "sigmoid"
    assert [comparable_settings(TrainConfig(private=False, loss=x))["loss"] for x in LOSSES] == [
        *LOSSES
    ]
    with refused("loss", "choice", value="hinge"):
        TrainConfig(private=False, loss="hinge")
