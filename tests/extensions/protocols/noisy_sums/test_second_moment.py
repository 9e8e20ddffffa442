"""Gram matrices of bounded rows: exact, and no record moves one further than it may."""

import math

import numpy as np
import pytest

from extensions.protocols.noisy_sums import second_moment
from extensions.protocols.noisy_sums.second_moment import (
    FRAC_BITS,
    check_unit_rows,
    pack,
    unit_rows,
    unpack,
)
from tests.helpers.refused import refused

ONE = 1 << FRAC_BITS


def squared_length(matrix: np.ndarray) -> int:
    """Of the vector of the triangle, entries off the diagonal times sqrt(2), in units of 4^-2f."""
    diagonal, upper = pack(matrix)
    squares = [int(x) ** 2 for x in diagonal.tolist()]
    return sum(squares) + 2 * sum(int(x) ** 2 for x in upper.tolist())


def hostile_rows(columns: int) -> np.ndarray:
    """Rows of 20 fractional bits as an owner's checks let them pass, all as long as they may be.

    Each entry of the even ones was rounded away from zero; there are many of them or a few.
    """
    draws = np.random.default_rng(columns)
    slack = math.sqrt(columns) * 2.0**-20
    rows = [np.zeros(columns), np.ones(columns) / math.sqrt(columns), np.eye(1, columns)[0]]
    rows += [*draws.normal(size=(5, columns)), *draws.standard_cauchy((5, columns)) ** 3]
    scaled = [row / max(float(np.linalg.norm(row)), 1.0) for row in rows[:1]]
    scaled += [row / np.linalg.norm(row) * (1.0 + slack) for row in rows[1:]]
    return np.fix(np.array(scaled) * 2.0**20).astype(np.int64)


@pytest.mark.parametrize("columns", [1, 2, 3, 64])
def test_no_row_moves_the_triangle_by_more_than_one(columns):
    """In integers: neighbours differ by one summand, whose length is that of the row squared."""
    rows = unit_rows(hostile_rows(columns), 2.0**20)
    check_unit_rows(rows)
    lengths = []
    for place in range(len(rows)):
        others = np.delete(rows, place, axis=0)
        moved = second_moment.second_moment(rows) - second_moment.second_moment(others)
        lengths.append(squared_length(moved))
        assert lengths[-1] == int((rows[place] ** 2).sum()) ** 2
    assert max(lengths) <= ONE**4
    assert max(lengths) > 0.999 * ONE**4
    assert lengths[0] == 0


def test_with_4096_columns_no_row_moves_it_further():
    rows = unit_rows(hostile_rows(4096), 2.0**20)
    squares = [sum(x * x for x in row) for row in rows.tolist()]
    assert max(squares) <= ONE**2
    assert max(squares) > 0.98 * ONE**2
    before, after = second_moment.second_moment(rows[:-1]), second_moment.second_moment(rows)
    np.testing.assert_array_equal(after - before, np.outer(rows[-1], rows[-1]))


def test_a_search_for_a_worse_record_finds_none():
    """Climbs from the longest rows of reals that pass, over integers next to them."""
    draws = np.random.default_rng(1)
    best = 0
    for _ in range(300):
        row = draws.normal(size=(1, 5))
        around = row / np.linalg.norm(row) * 2.0**20 + draws.integers(-3, 4, (40, 5))
        found = unit_rows(np.rint(around).astype(np.int64), 2.0**20)
        best = max(best, *(squared_length(np.outer(one, one)) for one in found))
    assert 0.9999 * ONE**4 < best <= ONE**4


def test_another_record_moves_it_by_the_root_of_two_and_k_records_by_k():
    first, second = ONE * np.eye(2, dtype=np.int64)
    moved = np.outer(first, first) - np.outer(second, second)
    assert squared_length(moved) == 2 * ONE**4
    assert squared_length(second_moment.second_moment(np.array([first] * 3))) == 9 * ONE**4
    draws = np.random.default_rng(2)
    for _ in range(100):
        a, b = unit_rows(np.rint(draws.normal(size=(2, 4)) * 2**20).astype(np.int64), 2.0**20)
        assert squared_length(np.outer(a, a) - np.outer(b, b)) <= 2 * ONE**4


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (7, 5), (200, 33), (3, 700)])
def test_it_is_exact_in_blocks_of_any_size(rows, columns, monkeypatch):
    monkeypatch.setattr(second_moment, "_BLOCK", 1000)
    x = unit_rows(np.random.default_rng(3).integers(-(2**20), 2**20, (rows, columns)), 2.0**20)
    wanted = np.array(x.astype(object).T @ x.astype(object), dtype=np.int64)
    found = second_moment.second_moment(x)
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(unpack(pack(found)), wanted / 4.0**FRAC_BITS)
    assert [part.size for part in pack(found)] == [columns, columns * (columns - 1) // 2]


def test_sums_of_the_largest_products_of_a_block_are_exact():
    """2^17 rows whose products are all 4^f, in an order that doubles bear no more rows of."""
    rows = np.zeros((second_moment._AT_ONCE, 1), dtype=np.int64) + ONE
    rows[-1] = ONE - 1
    assert (
        second_moment.second_moment(rows)[0, 0]
        == (second_moment._AT_ONCE - 1) * ONE**2 + (ONE - 1) ** 2
    )


def test_rows_are_cut_toward_zero():
    rows = np.array([[3, -3, 7], [0, 0, 0], [-(2**20), 0, 0]])
    np.testing.assert_array_equal(unit_rows(rows, 2.0**20), [[0, 0, 1], [0, 0, 0], [1 - ONE, 0, 0]])
    np.testing.assert_array_equal(unit_rows(8 * rows[:1], 2.0**20), [[5, -5, 13]])


def test_noise_on_the_vector_is_narrower_off_the_diagonal():
    assert second_moment.sigmas(2.0) == (2.0, pytest.approx(math.sqrt(2.0)))


def test_what_is_too_large_is_refused():
    with refused("columns", "range", value=4097):
        second_moment.check_size(10, 4097)
    with refused("records", "range", value=67108865):
        second_moment.check_size(2**26 + 1, 3)
    second_moment.check_size(0, 0)
    with refused("rows", "value", "a row of norm above 1"):
        check_unit_rows(np.array([[ONE, 1]]))
