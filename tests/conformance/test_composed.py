"""What a host may do with one opening instead of several: exact, whatever its way to it is."""

from typing import Any

import numpy as np
import pytest

from extensions.ring.fixed_point import Integers
from tests.conformance.arenas.arena import Arena
from tests.conformance.test_blocks import EDGES, octaves, words

THRESHOLDS = {1: [0], 3: [-5, 0, 1 << 40], 18: [0, *(1 << (20 + 2 * t) for t in range(17))]}


def rounded(got: Integers, z: Integers, shift: int) -> bool:
    """Whether each result is the quotient or the next integer, and the quotient where exact."""
    up = got - (z >> shift)
    return bool(np.isin(up, (0, 1)).all() and not up[z & ((1 << shift) - 1) == 0].any())


@pytest.mark.hosts(shift=[0, 28], kinds=[3])
@pytest.mark.parametrize("kinds", THRESHOLDS)
@pytest.mark.parametrize("shift", [0, 1, 28, 62])
def test_selection(arena: Arena, shift: int, kinds: int):
    thresholds, draws = THRESHOLDS[kinds], np.random.default_rng(kinds)
    x = np.concatenate([octaves(70, 62), thresholds, np.array(thresholds) - 1])
    x = x[np.abs(x) < 1 << 62].astype(np.int64)
    x = x[: len(x) // 3 * 3].reshape(3, -1)
    slopes, constants = draws.integers(-(2**63), 2**63, (2, 2, kinds)).tolist()
    value, *sums = arena.evaluate(
        "select", [x], thresholds=thresholds, slopes=slopes, constants=constants, shift=shift
    )
    assert rounded(value, x, shift)
    flags = np.stack([(x < t).astype(np.int64) for t in thresholds])
    weighed = [np.tensordot(np.array(w, dtype=np.int64), flags, 1) for w in (*slopes, *constants)]
    expected = [*weighed[:2], *(each * value for each in weighed[:2]), *weighed[2:]]
    np.testing.assert_array_equal(sums, expected)


@pytest.mark.hosts(shifts=[(36, 18), (62, 62)])
@pytest.mark.parametrize("shifts", [(0, 0), (20, 20), (36, 18), (1, 40), (62, 62)])
def test_products_of_what_is_truncated(arena: Arena, shifts: tuple[int, int]):
    x, y, z = octaves(60, 62, seed=1), octaves(60, 62, seed=2), octaves(30, 40, seed=3)
    items = [(x.shape, shifts[0]), (y.shape, shifts[1]), (z.shape, 7)]
    pairs = [(0, 1), (0, 0), (2, 2)]
    got = arena.evaluate(
        "truncate_and_multiply", [x, y, z], shifts=[s for _, s in items], pairs=pairs
    )
    values, products = got[:3], got[3:]
    for value, (_, shift), given in zip(values, items, (x, y, z), strict=True):
        assert rounded(value, given, shift)
    for (i, j), product in zip(pairs, products, strict=True):
        np.testing.assert_array_equal(product, values[i] * values[j])


def rows_of(count: int, width: int, seed: int) -> Integers:
    return words(count * width, seed)[-count * width :].reshape(count, width)


@pytest.mark.hosts(shift=[20])
@pytest.mark.parametrize("shift", [0, 20, 40, 62])
def test_rows_are_squared_and_scaled(arena: Arena, shift: int):
    factor = octaves(20, 62, seed=4)
    count = len(factor)
    first, second, beside = (rows_of(count, w, w) for w in (5, 1, 3))
    first[: len(EDGES), 0] = EDGES
    got = arena.evaluate("scaled_rows", [first, second, beside, factor], shift=shift)
    squares, once, again = got[:3], got[3:5], got[5:]
    for square, given in zip(squares, (first, second, beside), strict=True):
        np.testing.assert_array_equal(square, (given * given).sum(-1))
    for scaled in (once, again):
        for i in range(count):
            quotients = {int(factor[i] >> shift), -(int(-factor[i]) >> shift)}
            assert any(_row_is(scaled, (first, second), i, q) for q in quotients)


@pytest.mark.parametrize("shift", [0, 20])
def test_products_are_selected_squared_and_scaled(arena: Arena, shift: int):
    draws = np.random.default_rng(shift)
    x, y = draws.integers(-(2**20), 2**20, (2, 9, 3))
    x[0] = 0
    value, product, first, second, scaled = arena.evaluate("of_products", [x, y], shift=shift)
    z = x * y
    assert rounded(value, z, shift)
    np.testing.assert_array_equal(product, (z < 5) * value)
    for square in (first, second):
        np.testing.assert_array_equal(square, (z * z).sum(-1))
    for i, factor in enumerate(z[:, 0].tolist()):
        quotients = {factor >> shift, -(-factor >> shift)}
        assert any(_row_is([scaled], [z], i, q) for q in quotients)


def _row_is(scaled: Any, given: Any, i: int, quotient: int) -> bool:
    scale = np.array(quotient % 2**64, dtype=np.uint64).view(np.int64)
    return all(
        np.array_equal(got[i], scale * rows[i]) for got, rows in zip(scaled, given, strict=True)
    )
