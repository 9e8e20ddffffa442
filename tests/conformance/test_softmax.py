"""Softmax on every host lies where exact arithmetic says, and costs what it says."""

import numpy as np
import pytest

from extensions.layers.activations import sigmoid
from extensions.layers.softmax import exponential, reciprocal
from extensions.ring.fixed_point import decode, encode
from tests.conformance.arenas.arena import ABY3Arena, Arena, CrypTenArena
from tests.conformance.budgets.comparison import compared
from tests.conformance.budgets.test_budgets import TRUNCATE, Cost, zeros
from tests.conformance.budgets.test_budgets_aby3 import CONVERT, TRUNCATE_PRODUCT, selection
from tests.conformance.budgets.test_budgets_aby3 import TRUNCATE as ABY3_TRUNCATE
from tests.extensions.layers.test_activations import exact
from tests.extensions.layers.test_softmax import logits_of
from tests.helpers.reference_softmax import softmax_interval
from tests.helpers.strategies import PRESETS

ROWS, CLASSES = 7, 10
FIRST, SECOND = len(exponential(CLASSES).thresholds), len(reciprocal(CLASSES).thresholds)


@pytest.mark.hosts(frac_bits=[16])
@pytest.mark.parametrize("frac_bits", PRESETS)
def test_probabilities_lie_in_their_interval(arena: Arena, frac_bits: int):
    logits = logits_of(CLASSES, frac_bits)[:: 1800 // 6]
    (got,) = arena.evaluate("probabilities", [logits], frac_bits=frac_bits)
    low, high = softmax_interval(logits, frac_bits)
    found = decode(got, frac_bits)
    assert ((low <= found) & (found <= high)).all()
    assert (high - low).max() < 2.0**-6


def test_two_classes_take_one_sigmoid(arena: Arena):
    logits = logits_of(2, 20)[:: 9000 // 6]
    (got,) = arena.evaluate("probabilities", [logits], frac_bits=20)
    value, _ = exact(sigmoid(), logits[:, 1] - logits[:, 0], 20)
    assert np.isin(got[:, 1] - (value >> sigmoid().slope_bits), (0, 1)).all()
    assert (got.sum(axis=1) == 1 << 20).all()


def test_cost_in_crypten(crypten_arena: CrypTenArena):
    cost = crypten_arena.cost("probabilities", zeros((ROWS, CLASSES)))
    entry = 3 * TRUNCATE.words + 2  # and factors of two products
    row = 2
    words = compared(ROWS * CLASSES, FIRST).converted + compared(ROWS, SECOND).converted
    assert cost == Cost(13, words + ROWS * (CLASSES * entry + row))
    assert (FIRST, SECOND) == (18, 32)
    assert crypten_arena.cost("probabilities", zeros((ROWS, 2))).rounds == 5


def test_cost_in_aby3(aby3_arena: ABY3Arena):
    entry = ABY3_TRUNCATE.words + 2 * (CONVERT.words + TRUNCATE_PRODUCT.words)
    row = 2 * CONVERT.words  # the reciprocal, and its correction
    words = selection(ROWS * CLASSES, FIRST).words + selection(ROWS, SECOND).words
    cost = aby3_arena.cost("probabilities", [(ROWS, CLASSES)])
    assert cost == (13, 8 * (words + ROWS * (CLASSES * entry + row)))
    assert aby3_arena.cost("probabilities", [(ROWS, 2)])[0] == 5


def test_gradients_of_a_layer_with_softmax(arena: Arena):
    f, classes = 20, 4
    draws = np.random.default_rng(4)
    x, weight = (encode(draws.integers(-64, 65, s) / 32, f) for s in ((30, 5), (classes, 5)))
    bias, targets = encode(draws.integers(-9, 9, classes), f), encode(np.eye(classes)[:, :], f)
    targets = targets[draws.integers(0, classes, 30)]
    given = [x, targets, weight, bias]
    logits, inputs, deltas = arena.evaluate("model_gradients", given, frac_bits=f, loss="softmax")
    np.testing.assert_array_equal(inputs, x)
    np.testing.assert_array_equal(logits, ((x @ weight.T) >> f) + bias)
    low, high = softmax_interval(logits, f)
    found = decode(deltas + targets, f)
    assert ((low <= found) & (found <= high)).all()
