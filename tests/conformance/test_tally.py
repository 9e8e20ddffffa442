"""Sums over held-out records, on every host."""

import numpy as np
import pytest

from extensions.network.tally import tally
from extensions.ring.clear import ClearRing
from extensions.ring.fixed_point import encode
from tests.conformance.arenas.arena import Arena

F, ROWS = 20, 12


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
