"""Cells and bins of columns: a function of the schema, a record, and noisy counts alone."""

from dataclasses import replace

import numpy as np
import pytest

from extensions.data.schema import Category, Number
from extensions.data.schema.encoding import encode_unlabelled, places_in
from extensions.protocols.noisy_sums.additive.bins import LEAST, MOST_BINS, bins_of, even_bins
from extensions.protocols.noisy_sums.additive.grid import CellGrid
from tests.helpers.refused import refused
from tests.helpers.tables import COLUMNS, cells_of, schema_of

WITH_SCALES = (
    *COLUMNS,
    Number(name="price", low=1.0, high=1e6, scale="log", outside="clip"),
    Number(name="debt", low=-50.0, high=1e4, scale="log1p", outside="clip"),
)


def test_places_are_what_the_encoding_was_given():
    schema = schema_of(columns=WITH_SCALES)
    table = cells_of(schema, 3000, np.random.default_rng(3))
    places = places_in(schema, encode_unlabelled(schema, table).x)
    for column, found in zip(schema.columns, places, strict=True):
        values = table[column.name]
        missing = np.array([each is None for each in values])
        if isinstance(column, Number):
            there = found[~missing]
            assert np.isnan(found[missing]).all()
            known = np.clip(values[~missing].astype(float), column.low, column.high)
            np.testing.assert_allclose(column.at(there), known, rtol=1e-6, atol=1e-4)
            continue
        assert isinstance(column, Category)
        names = [*column.categories, *(["none of them"] if column.outside == "other" else [])]
        wanted = [names.index(each) if each in names else np.nan for each in values]
        np.testing.assert_array_equal(found, wanted)


def test_a_value_where_cells_meet_is_in_the_upper_one_whatever_stands_beside_it():
    schema = schema_of(columns=(*COLUMNS, Number(name="year", low=0.0, high=128.0)))
    table = cells_of(schema, 129 * 20, np.random.default_rng(5))
    years = np.tile(np.arange(129), 20)
    table["year"] = years.astype(object)
    grid = CellGrid(schema)
    cells = grid.place(encode_unlabelled(schema, table).x)[:, -1] - grid.offsets[-2]
    edges = grid.columns[-1].edges
    np.testing.assert_array_equal(cells, np.searchsorted(edges, years / 128, side="right"))


@pytest.mark.parametrize(("cells", "size"), [("fine", 187), ("coarse", 28), ("equal", 8)])
def test_sizes_of_grids(cells, size):
    grid = CellGrid(schema_of(), cells)
    assert [each.size for each in grid.columns] == [size, size + 1, 5, 3]


def test_no_column_has_more_than_a_thousand_categories():
    many = Category(name="job", categories=tuple(map(str, range(1001))))
    with refused("columns.job.categories", code="range"):
        CellGrid(schema_of(columns=(many,)))
    CellGrid(schema_of(columns=(replace(many, categories=many.categories[:-1]),)))


@pytest.mark.parametrize("deviation", [0.0, 3.0, 40.0])
@pytest.mark.parametrize("seed", range(8))
def test_bins_hold_enough_and_keep_the_order(deviation, seed):
    draw = np.random.default_rng(seed)
    grid, records = CellGrid(schema_of(columns=WITH_SCALES)), float(draw.integers(50, 30_000))
    truth = [draw.dirichlet(np.full(each.size, 0.1)) * records for each in grid.columns]
    noisy = np.concatenate(truth) + deviation * draw.normal(size=grid.size)
    bins = bins_of(grid, noisy, records, deviation)
    for column, own, counts in zip(grid.columns, bins, grid.by_column(noisy), strict=True):
        np.testing.assert_array_equal(np.unique(own.of_cell), np.arange(own.size))
        assert own.counts.min() > 0
        assert own.counts.sum() == pytest.approx(records)
        present = own.of_cell[: column.present]
        if column.ordered:
            assert (np.diff(present) >= 0).all()
            assert own.ordered == present[-1] + 1 <= MOST_BINS + 1
        centred = counts - (counts.sum() - records) / column.size
        held = np.bincount(own.of_cell, weights=centred)
        if own.size > 1:
            assert held.min() >= max(LEAST, 4 * deviation) * (1 - 1e-9)


def test_a_missing_value_has_a_bin_if_it_is_seen():
    grid = CellGrid(schema_of())
    income = slice(grid.offsets[1], grid.offsets[2])
    counts = np.full(grid.size, 10.0)
    counts[income] = 0.0
    counts[grid.offsets[1]] = 900.0
    counts[grid.offsets[2] - 1] = 100.0
    seen = bins_of(grid, counts, 1000.0, 0.0)[1]
    assert seen.of_cell[-1] == seen.size - 1 == seen.ordered
    counts[grid.offsets[2] - 1] = 5.0
    rare = bins_of(grid, counts, 1000.0, 0.0)[1]
    assert rare.of_cell[-1] == rare.of_cell[0]


def test_even_bins_are_the_cells():
    grid = CellGrid(schema_of(), "equal")
    assert [each.size for each in even_bins(grid, 60.0)] == [8, 9, 5, 3]
