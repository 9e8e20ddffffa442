"""The terms of an additive model: a shape function a column, with what is known of its noise."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from extensions.data.schema import Number
from extensions.errors import ArgumentError
from extensions.protocols.noisy_sums.additive.grid import GridColumn
from extensions.protocols.noisy_sums.additive.training import (
    BIN_COUNTS,
    BINS,
    COUNT_DEVIATIONS,
    DEVIATIONS,
)
from extensions.ring.fixed_point import Integers, Reals
from extensions.runs.model.files import OpenedModel


@dataclass(frozen=True, kw_only=True)
class Term:
    """The shape function of one column.

    A record adds `values[:, b]` to its logits, with b the bin that it is in. Shapes have mean 0
    over the training records, as the noisy counts have them.

    Attributes:
        column: name of the column.
        edges: of a number's bins in its own unit, from the range's low end to its high one, those
            of missing values left out; None of categories.
        labels: of each bin, what is in it: a range of numbers, names of categories, "missing", or
            "other" of categories that the schema does not name.
        values: what the bin adds to each class's logit, (classes, bins). Of two classes a score is
            half their difference; of a number it is a part of the target's range.
        deviations: standard deviation of what the noise adds to these, (classes, bins), were it the
            only column. The true shape is within 2.5 of them in 80 to 96 % of the bins where
            columns overlap.
        counts: of training records in each bin, with noise, (bins,).
        count_deviations: standard deviation of that noise, (bins,); 0 where nothing was counted.
        missing: number of the bin of missing values (of categories also of what the schema does not
            name), which may hold others; None if there are none.
    """

    column: str
    edges: Reals | None
    labels: tuple[str, ...]
    values: Reals
    deviations: Reals
    counts: Reals
    count_deviations: Reals
    missing: int | None

    @property
    def importance(self) -> Reals:
        """How much it moves logits, (classes,): its deviation over records, less that of noise."""
        weights = self.counts / self.counts.sum()
        squares: Reals = ((self.values**2 - self.deviations**2) * weights).sum(axis=1)
        return np.sqrt(np.maximum(squares, 0.0))


def terms_of(model: OpenedModel) -> tuple[Reals, list[Term]]:
    """Returns the intercept of each class, (classes,), and the terms of an additive model.

        model = read_opened(Path("model/model.npz"))
        intercept, terms = terms_of(model)

    Raises:
        ArgumentError: it is another kind of model.
    """
    grid = model.header.grid
    if grid is None:
        given = model.header.spec.kind or "linear"
        raise ArgumentError("model", given, "an additive model, of {model=additive}", code="choice")
    ((weight, bias),) = model.parameters
    terms, first = [], 0
    pieces = zip(
        grid.columns, grid.by_column(model.terms[BINS]), grid.by_column(weight), strict=True
    )
    for column, of_cell, values in pieces:
        size = int(of_cell.max()) + 1
        own = slice(first, first + size)
        first += size
        _, cells = np.unique(of_cell, return_index=True)
        present = of_cell[: column.present]
        edges = _edges(column, present) if column.ordered else None
        terms.append(
            Term(
                column=column.column.name,
                edges=edges,
                labels=_labels(column, of_cell, edges),
                values=values[:, cells],
                deviations=model.terms[DEVIATIONS][:, own],
                counts=model.terms[BIN_COUNTS][own],
                count_deviations=model.terms[COUNT_DEVIATIONS][own],
                missing=int(of_cell[-1]) if column.has_missing else None,
            )
        )
    return bias, terms


def contributions(model: OpenedModel, features: Reals) -> Reals:
    """Returns what each column adds to each record's logits, (records, columns, classes).

    With the intercept they add up to `logits_of`.
    """
    grid = model.header.grid
    assert grid is not None
    ((weight, _),) = model.parameters
    found: Reals = weight.T[grid.place(features)]
    return found


def _edges(column: GridColumn, present: Integers) -> Reals:
    """Returns where a number's bins meet, in its own unit."""
    assert isinstance(column.column, Number)
    meet = np.flatnonzero(np.diff(present))
    return column.column.at(np.concatenate([[0.0], column.edges[meet], [1.0]]))


def _labels(column: GridColumn, of_cell: Integers, edges: Reals | None) -> tuple[str, ...]:
    found: list[str] = []
    for number in range(int(of_cell.max()) + 1):
        cells = np.flatnonzero(of_cell == number)
        names: Sequence[str] = [column.labels[cell] for cell in cells if cell < len(column.labels)]
        if edges is not None:
            one = number < len(edges) - 1
            names = [f"{edges[number]:.6g} .. {edges[number + 1]:.6g}"] if one else []
        if column.has_missing and cells[-1] == column.present:
            absent = ["missing"] if column.column.missing == "indicator" else []
            names = [*names, *absent, *(["other"] if column.clipped else [])]
        found.append(", ".join(names))
    return tuple(found)
