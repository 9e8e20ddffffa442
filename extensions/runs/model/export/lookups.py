"""The terms of an additive model as tables that are looked up by the value of a column."""

from dataclasses import dataclass

import numpy as np

from extensions.data.schema import Category, Number
from extensions.data.schema.columns import bent
from extensions.ring.fixed_point import Reals
from extensions.runs.model.files import OpenedModel


@dataclass(frozen=True)
class Lookup:
    """One column: a value's row is how many `edges` its place reaches, the last one if it is NaN.

    Attributes:
        column: of the schema. A category is given as its number in the schema's order; any other
            number is one that the schema does not name.
        edges: where rows meet, as parts of the range on the column's scale; of none for categories.
        table: (rows, classes), what a row adds to logits.
        unnamed: row of a category that the schema does not name.
    """

    column: Number | Category
    edges: Reals
    table: Reals
    unnamed: int = 0

    @property
    def ends(self) -> Reals:
        """Lowest and highest value of a number, on its scale, (2,)."""
        assert isinstance(self.column, Number)
        return bent(self.column.scale, np.array([self.column.low, self.column.high]))


def lookups(model: OpenedModel) -> list[Lookup]:
    """Returns the table of each column of an additive model, with as few rows as it has bins."""
    grid = model.header.grid
    assert grid is not None
    ((weight, _),) = model.parameters
    found = []
    for column, own in zip(grid.columns, grid.by_column(weight), strict=True):
        present = own[:, : column.present].T
        kept = np.arange(column.present)
        if column.ordered:
            changes = (np.diff(present, axis=0) != 0).any(axis=1)
            kept = np.concatenate([[0], np.flatnonzero(changes) + 1])
        absent = own[:, -1:].T  # of missing values, if there are any
        named = isinstance(column.column, Number) or column.column.outside != "other"
        found.append(
            Lookup(
                column.column,
                column.edges[kept[1:] - 1] if column.ordered else np.zeros(0),
                np.concatenate([present[kept], absent]),
                column.present if named else column.present - 1,
            )
        )
    return found
