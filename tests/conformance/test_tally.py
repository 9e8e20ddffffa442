"""Sums over held-out records, and rows that count less than others, on every host."""

from dataclasses import replace

import numpy as np
import pytest

from extensions.layers.linear_layers import LayerShape
from extensions.layers.tally import (
    BINS,
    BITS,
    EDGES,
    GROUPS,
    area_unit,
    cells,
    squared_errors,
    tally,
)
from extensions.ring.clear import ClearRing
from extensions.ring.fixed_point import decode, encode
from tests.conformance.arenas.arena import ABY3Arena, Arena, Cost, CrypTenArena
from tests.conformance.arenas.recipes import RECIPES
from tests.conformance.budgets.test_budgets import comparison, total
from tests.conformance.budgets.test_budgets_aby3 import CONVERT, selection
from tests.conformance.budgets.test_budgets_aby3 import TRUNCATE as ABY3_TRUNCATE
from tests.helpers.strategies import MODELS, plan_of

F, ROWS = 20, 12
SHAPE = LayerShape(in_features=4, out_features=2, has_bias=True, input_norm=1.01, delta_norm=1.5)


@pytest.mark.parametrize(
    ("classes", "loss", "rows"),
    [(1, "squared", ROWS), (2, "sigmoid", 40), (2, "sigmoid", ROWS), (3, "softmax", ROWS)],
)
def test_sums_are_those_of_the_clear_ring(arena: Arena, classes: int, loss: str, rows: int):
    """Of fewer rows than there are groups, too."""
    draw = np.random.default_rng(classes)
    logits = encode(draw.normal(0, 2, (rows, classes)), F)
    truth = np.eye(classes)[draw.integers(0, classes, rows)]
    targets = encode(draw.uniform(0, 1, (rows, 1)) if classes == 1 else truth, F)
    (found,) = arena.evaluate("tallied", [logits, targets], frac_bits=F, loss=loss)
    want = tally(ClearRing(F, rounding="floor"), loss, logits, targets)
    slack = 2 if classes == 1 else 0
    assert np.abs(found - want).max() <= slack


@pytest.mark.parametrize("classes", [1, 2, 3])
def test_what_is_opened_of_them_is_that_of_numpy(arena: Arena, classes: int):
    """Of two classes with counts as large as a million records have them, exactly."""
    draw = np.random.default_rng(classes)
    counts = draw.integers(0, 500, cells(classes)) << F
    records = int(counts.sum()) >> F
    (found,) = arena.evaluate("summed", [counts], frac_bits=F, classes=classes, records=records)
    if classes != 2:
        np.testing.assert_array_equal(found, counts)
        return
    each = (counts >> F).reshape(BINS, GROUPS, 2)
    zero, one = each.sum(axis=1).T
    middle = BINS // 2
    right = [zero[:middle].sum(), one[middle:].sum()]
    below = np.cumsum(zero) - zero
    wins = int((one * (2 * below + zero)).sum()) - int(zero.sum()) * int(one.sum())
    errors = [
        sum(int(c) * w for c, w in zip(*pair, strict=True))
        for pair in zip((zero, one), squared_errors(), strict=True)
    ]
    sums = [*right, int(zero.sum() - right[0]), int(one.sum() - right[1])]
    want = [
        *((4 * int(each) - records) << (BITS - 2) for each in sums),
        sum(errors) - (records << (BITS - 1)),
        wins * area_unit(records),
        right_among_the_highest(each) << (BITS - 1),
    ]
    assert found.tolist() == want
    assert records > 1_000_000


def right_among_the_highest(counts: np.ndarray) -> int:
    """Returns how many are right if the highest are said to be of class 1, as many as there are."""
    zero, one = counts[::-1].reshape(-1, 2).T
    left = one.sum() - np.cumsum(zero + one) + zero + one
    found = sum(int(np.clip(left - first, 0, one).sum()) for first in (0, zero))
    return found + int(zero.sum() - one.sum())


def test_sums_take_few_rounds_beside_the_comparison(
    crypten_arena: CrypTenArena, aby3_arena: ABY3Arena
):
    """A truncation of counts by bin and a product of the classes', and a selection of groups.

    The selection follows, or, in the graph of ABY3, is beside them.
    """
    scored = crypten_arena.cost(
        "tallied", [np.zeros((ROWS, 2), dtype=np.int64)] * 2, loss="sigmoid"
    )
    compared = comparison(ROWS, len(EDGES))
    assert scored == Cost(compared.rounds + 1, compared.words + len(EDGES) * ROWS + 2 * ROWS)
    zeros, ends = np.zeros(cells(2), dtype=np.int64), 2 * BINS * GROUPS
    found = crypten_arena.cost("summed", [zeros], classes=2, records=ROWS)
    assert found == total(Cost(2, 4 * BINS), comparison(ends, 1))
    assert found == Cost(6, 7244)
    words = 2 * BINS * (ABY3_TRUNCATE.words + CONVERT.words) + selection(ends, 1).words
    assert aby3_arena.cost("summed", [(cells(2),)], classes=2, records=ROWS) == (4, 8 * words)


def test_rows_count_as_much_as_their_class(arena: Arena):
    draw = np.random.default_rng(5)
    inputs, deltas = draw.uniform(-0.5, 0.5, (ROWS, 4)), draw.uniform(-1, 1, (ROWS, 2))
    targets = np.eye(2)[np.arange(ROWS) % 2] * (np.arange(ROWS) < 10)[:, None]
    plan = plan_of(MODELS["linear"], frac_bits=F, parties=arena.parties, rows=ROWS)
    plan = replace(plan, layers=(SHAPE,))
    given = [encode(each, F) for each in (inputs, deltas, targets)]
    rows, *sums = arena.evaluate(
        "weighted_sums", given, frac_bits=F, plan=plan, weights=(0.25, 1.0)
    )
    assert rows.tolist() == [64 if i % 2 == 0 else 256 for i in range(10)] + [0, 0]
    ring = ClearRing(F, parties=arena.parties, rounding="floor")
    want = RECIPES["weighted_sums"](ring, *given, plan=plan, weights=(0.25, 1.0))[1:]
    for found, expected in zip(sums, want, strict=True):
        apart = decode(found - expected, F + plan.factor_bits)
        assert np.abs(apart).max() <= ROWS * 2.0**-F
