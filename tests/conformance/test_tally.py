"""Sums over held-out records, and rows that count less than others, on every host."""

from dataclasses import replace

import numpy as np
import pytest

from extensions.network.layers import LayerShape
from extensions.network.tally import tally
from extensions.ring.clear import ClearRing
from extensions.ring.fixed_point import decode, encode
from tests.conformance.arenas.arena import Arena
from tests.conformance.arenas.recipes import RECIPES
from tests.helpers.strategies import MODELS, plan_of

F, ROWS = 20, 12
SHAPE = LayerShape(in_features=4, out_features=2, has_bias=True, input_norm=1.01, delta_norm=1.5)


@pytest.mark.parametrize(("classes", "loss"), [(1, "squared"), (2, "sigmoid"), (3, "softmax")])
def test_sums_are_those_of_the_clear_ring(arena: Arena, classes: int, loss: str):
    draw = np.random.default_rng(classes)
    logits = encode(draw.normal(0, 2, (ROWS, classes)), F)
    truth = np.eye(classes)[draw.integers(0, classes, ROWS)]
    targets = encode(draw.uniform(0, 1, (ROWS, 1)) if classes == 1 else truth, F)
    (found,) = arena.evaluate("tallied", [logits, targets], frac_bits=F, loss=loss)
    want = tally(ClearRing(F, rounding="floor"), loss, logits, targets)
    slack = 2 if classes == 1 else 0
    assert np.abs(found - want).max() <= slack


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
