"""Public cells of each column, in which records are counted: they follow from the schema alone."""

from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from extensions.data.schema import Category, Number, Schema
from extensions.data.schema.encoding import places_in
from extensions.errors import ArgumentError
from extensions.protocols.settings import Cells
from extensions.ring.fixed_point import Integers, Reals

Array = TypeVar("Array", bound=npt.NDArray[Any])
MOST_CATEGORIES = 1000
_EVEN = np.arange(2, 128) / 128
_LOW = 2.0 ** -(7 + np.arange(60)[::-1] / 6)
_EDGES: dict[Cells, Reals] = {
    "fine": np.concatenate([_LOW, _EVEN]),
    "coarse": np.concatenate([2.0 ** -np.arange(16.0, 4.0, -1.0), np.arange(1, 16) / 16]),
    "equal": np.arange(1, 8) / 8,
}
"""Where cells of a number meet, as parts of its range: 187, 28 and 8 cells. Fine ones are six an
octave at the low end, so that long tails need no logarithm."""


@dataclass(frozen=True)
class GridColumn:
    """The cells of one column, the last of which is of missing values if it `has_missing`.

    Attributes:
        column: of the schema.
        edges: where cells of a number meet, as parts of its range; of none for categories.
        labels: of cells that are categories.
    """

    column: Number | Category
    edges: Reals
    labels: tuple[str, ...]

    @property
    def ordered(self) -> bool:
        """Whether cells are of a number."""
        return isinstance(self.column, Number)

    @property
    def has_missing(self) -> bool:
        """Whether a cell is of missing values, or of categories that the schema does not name."""
        return self.column.missing == "indicator" or self.clipped

    @property
    def clipped(self) -> bool:
        """Whether categories that the schema does not name are taken for missing ones."""
        return not self.ordered and self.column.outside == "clip"

    @property
    def present(self) -> int:
        """Number of cells of present values."""
        return len(self.edges) + 1 if self.ordered else len(self.labels)

    @property
    def size(self) -> int:
        """Number of cells."""
        return self.present + self.has_missing

    def place(self, places: Reals) -> Integers:
        """Returns each record's cell, (records,), of what `places_in` says, NaN for none."""
        absent = np.isnan(places)
        known = np.where(absent, 0.0, places)
        inner = np.searchsorted(self.edges, known, side="right") if self.ordered else known
        return np.where(absent, self.present, inner).astype(np.int64)


@dataclass(frozen=True)
class CellGrid:
    """Cells of all columns, one column's after the other's.

    Attributes:
        schema: that says what columns hold.
        cells: how many a number has.
    """

    schema: Schema
    cells: Cells = "fine"
    columns: tuple[GridColumn, ...] = field(init=False)

    def __post_init__(self) -> None:
        columns = []
        for each in self.schema.columns:
            labels: tuple[str, ...] = ()
            if isinstance(each, Category):
                labels = (*each.categories, *(("other",) if each.outside == "other" else ()))
                if len(labels) > MOST_CATEGORIES:
                    allowed = f"at most {MOST_CATEGORIES} with {{model=additive}}"
                    name = f"columns.{each.name}.categories"
                    raise ArgumentError(name, len(labels), allowed, code="range")
            assert isinstance(each, Number | Category)
            edges = _EDGES[self.cells] if isinstance(each, Number) else np.zeros(0)
            columns.append(GridColumn(each, edges, labels))
        object.__setattr__(self, "columns", tuple(columns))

    @cached_property
    def offsets(self) -> Integers:
        """Where each column's cells begin, and where all end, (columns + 1,)."""
        return np.cumsum([0, *(each.size for each in self.columns)])

    @property
    def size(self) -> int:
        """Number of cells of all columns."""
        return int(self.offsets[-1])

    def place(self, features: Reals) -> Integers:
        """Returns each record's cell in each column, (records, columns), counted over all columns.

        Args:
            features: of `extensions.data.schema.encode_table`, (records, features), of one's own
                records: cells are a function of a record and of what is public.
        """
        places = places_in(self.schema, features)
        cells = [each.place(own) for each, own in zip(self.columns, places, strict=True)]
        return np.stack(cells, axis=1) + self.offsets[:-1]

    def by_column(self, values: Array) -> list[Array]:
        """Returns the part of each column of an array whose last axis is of all cells."""
        parts: Any = [values[..., start:end] for start, end in pairwise(self.offsets)]
        return cast(list[Array], parts)
