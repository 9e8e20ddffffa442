"""Bins of columns, made of noisy counts of their cells: the same at every party, in exact sums."""

from dataclasses import dataclass

import numpy as np

from extensions.protocols.noisy_sums.additive.grid import CellGrid, GridColumn
from extensions.ring.fixed_point import Integers, Reals

MOST_BINS = 32
LEAST = 20.0
"""Records of a bin at least, and four deviations of a count's noise."""


@dataclass(frozen=True)
class Bins:
    """The bins of one column.

    Attributes:
        of_cell: number of each cell's bin, (cells,).
        counts: of records in each bin, noisy but positive, (bins,); they add up to all records.
        ordered: bins of present values that lie in order, from the first on; 0 for categories.
    """

    of_cell: Integers
    counts: Reals
    ordered: int

    @property
    def size(self) -> int:
        """Number of bins."""
        return len(self.counts)


def bins_of(grid: CellGrid, cells: Reals, records: float, deviation: float) -> list[Bins]:
    """Returns each column's bins of equal noisy mass, and bins for rare categories together.

    A cell with more than twice the mean is a bin of its own, and so are missing values, if enough
    are seen; else they join the largest bin. No bin has fewer than 20 records, or four deviations.

    Args:
        cells: noisy counts of all cells.
        records: number of all records, about which each column's counts are brought.
        deviation: of a count's noise, 0 for none.
    """
    least = max(LEAST, 4.0 * deviation)
    return [
        _binned(column, counts - (counts.sum() - records) / column.size, records, least, deviation)
        for column, counts in zip(grid.columns, grid.by_column(cells), strict=True)
    ]


def even_bins(grid: CellGrid, records: float) -> list[Bins]:
    """Returns a bin for each cell, all alike: where records are too few to be counted."""
    return [
        Bins(
            np.arange(column.size),
            np.full(column.size, records / column.size),
            column.present if column.ordered else 0,
        )
        for column in grid.columns
    ]


def _binned(
    column: GridColumn, counts: Reals, records: float, least: float, deviation: float
) -> Bins:
    present = counts[: column.present]
    missing = float(counts[column.present]) if column.has_missing else 0.0
    apart = column.has_missing and missing >= least
    if column.ordered:
        of_cell = _in_order(present, records, least)
    else:
        of_cell = _merged(present, records - (missing if apart else 0.0), least)
    size = int(of_cell.max()) + 1
    ordered = size if column.ordered else 0
    if column.has_missing:
        largest = int(np.argmax(np.bincount(of_cell, weights=present)))
        of_cell = np.append(of_cell, size if apart else largest)
    sums = np.maximum(np.bincount(of_cell, weights=counts), max(deviation, 1.0))
    return Bins(of_cell, sums * (records / sums.sum()), ordered)


def _in_order(counts: Reals, records: float, least: float) -> Integers:
    """Returns the bin of each cell of a number."""
    alone = counts >= max(2.0 * records / MOST_BINS, least)
    left = max(records - float(counts[alone].sum()), 0.0)
    wanted = max(left / max(MOST_BINS - int(alone.sum()), 1), least)
    of_cell = np.zeros(len(counts), dtype=np.int64)
    current, mass = 0, 0.0
    for cell, (count, apart) in enumerate(zip(counts.tolist(), alone.tolist(), strict=True)):
        current += apart and mass >= least
        of_cell[cell] = current
        mass += count
        if apart or mass >= wanted:
            current, mass = current + 1, 0.0
    if mass < least and current > 0:
        of_cell[of_cell == current] = current - 1
    return np.unique(of_cell, return_inverse=True)[1].astype(np.int64)


def _merged(counts: Reals, records: float, least: float) -> Integers:
    """Returns the bin of each category: of the rare ones one together, or the largest bin."""
    common = np.flatnonzero(counts >= least)
    of_cell = np.full(len(counts), len(common), dtype=np.int64)
    of_cell[common] = np.arange(len(common))
    rest = records - float(counts[common].sum())
    if len(common) and (rest < least or len(common) == len(counts)):
        of_cell[of_cell == len(common)] = int(np.argmax(counts[common]))
    return of_cell
