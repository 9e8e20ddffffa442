"""Records as numbers, by a public schema alone: nothing of one record depends on another's."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from extensions.data.schema.cells import (
    Cells,
    Table,
    identity_of,
    is_rounded,
    is_spelled_missing,
    label_of,
    names_in,
)
from extensions.data.schema.columns import Number, numbers_in, reject, reject_missing
from extensions.data.schema.schema import Schema, Unit
from extensions.errors import ArgumentError
from extensions.ring.fixed_point import Reals

EVEN = 0.25
"""What is added, as one more value of each column, before rows are scaled to norm 1."""
PLACE_BITS = 30


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """One owner's table as numbers.

    Attributes:
        x: features (records, features), of a schema rows of norm below 1; or texts, (records,).
        y: class numbers, or targets in [0, 1], (records,); of no words where none are asked for.
        units: a number for each person, the same in all of its records, (records,); None where
            no person is named.
        clipped: number of clipped values by column, where there are any; its owner's alone.
        left_out: number of records beyond the most that count of a person; its owner's alone.
    """

    x: npt.NDArray[Any]
    y: npt.NDArray[np.int64] | Reals = field(default_factory=lambda: np.zeros(0))
    units: npt.NDArray[np.int64] | None = None
    clipped: Mapping[str, int] = field(default_factory=dict)
    left_out: int = 0


def encode_table(schema: Schema, table: Table) -> Encoded:
    """Returns the records of a table; columns are found by their names, and further ones left out.

    A column's numbers have norm 1 at most. Together, z of c columns, they become z / sqrt(|z|^2 + c
    `EVEN`^2): rows of norm below 1 and for usual values not far from it, whatever their number, so
    that one bound of gradients fits all tables; records of different size stay apart.

    Of a person's records the first k count, in the order of the file. The error of a value that the
    schema refuses names its record (they count from 1) and column, and never the value.
    """
    features = encode_unlabelled(schema, table)
    x, clipped = features.x, features.clipped
    y, beyond = _targets(schema, table)
    if beyond:
        clipped = {**clipped, schema.target.column: beyond}
    if schema.unit is None:
        return Encoded(x=x, y=y, clipped=clipped)
    units = _units(schema, schema.unit, table)
    first = first_of_each(units, schema.unit.rows)
    left_out = len(x) - len(first)
    return Encoded(x=x[first], y=y[first], units=units[first], clipped=clipped, left_out=left_out)


def encode_unlabelled(schema: Schema, table: Table) -> Encoded:
    """Returns what `encode_table` makes of a table's features, which alone need be there."""
    schema.check_confirmed()
    parts, clipped = [], {}
    for column in schema.columns:
        numbers, beyond = column.encode(_cells(table, column.name), schema.decimal)
        parts.append(numbers)
        if beyond:
            clipped[column.name] = beyond
    z = np.hstack(parts)
    if len(z) == 0:
        raise ArgumentError("records", 0, "at least one record", code="data")
    squares = (z * z).sum(axis=1, keepdims=True)
    return Encoded(x=z / np.sqrt(squares + len(schema.columns) * EVEN**2), clipped=clipped)


def places_in(schema: Schema, x: Reals) -> list[Reals]:
    """Returns what `encode_table` encoded, of each column, (records,): its inverse.

    Of a number its place in the range, 0..1, on the column's scale; of a category its number in the
    schema's order, an "other" one last; NaN where it is missing, or a clipped category.

    Args:
        x: features of records, (records, features), in double precision.
    """
    if x.shape[1] != len(schema.features):
        allowed = f"of {len(schema.features)} features, as the schema's columns say"
        raise ArgumentError("records", f"{x.shape[1]} features a record", allowed, code="shape")
    rest = np.maximum(1.0 - (x * x).sum(axis=1, keepdims=True), 2.0**-20)
    z = x * np.sqrt(len(schema.columns) * EVEN**2 / rest)
    found, first = [], 0
    for column in schema.columns:
        own = z[:, first : first + len(column.outputs)]
        first += len(column.outputs)
        values = own[:, :-1] if column.missing == "indicator" else own
        if isinstance(column, Number):
            # Places on a grid, as rounding must not move those that lie where cells meet.
            places = np.round((values[:, 0] + 1.0) * 2.0 ** (PLACE_BITS - 1)) * 2.0**-PLACE_BITS
            absent = np.zeros(len(x), dtype=bool)
        else:
            places = values.argmax(axis=1).astype(np.float64)
            absent = values.max(axis=1) < 0.25
        if column.missing == "indicator":
            absent = absent | (own[:, -1] > 0.5)
        found.append(np.where(absent, np.nan, places))
    return found


def first_of_each(units: npt.NDArray[np.int64], count: int) -> npt.NDArray[np.int64]:
    """Returns the places of the first `count` records of each person, in order."""
    seen: Counter[int] = Counter()
    counts = []
    for unit in units.tolist():
        seen[unit] += 1
        counts.append(seen[unit] <= count)
    return np.flatnonzero(counts)


def _targets(schema: Schema, table: Table) -> tuple[npt.NDArray[np.int64] | Reals, int]:
    target = schema.target
    cells = _cells(table, target.column)
    reject_missing(target.column, cells, "Drop the record.")
    if target.range is None:
        places = {name: place for place, name in enumerate(target.classes)}
        labels = [label_of(each, schema.decimal) for each in cells]
        found = np.array([places.get(label, -1) for label in labels], dtype=np.int64)
        reject(target.column, found < 0, f"one of the schema's classes, {names_in(places)}")
        return found, 0
    values = numbers_in(target.column, cells, schema.decimal)
    low, high = target.range
    beyond = (values < low) | (values > high)
    if target.outside == "refuse":
        reject(target.column, beyond, f"in {low:g}..{high:g}, the schema's range")
    return (np.clip(values, low, high) - low) / (high - low), int(beyond.sum())


def _units(schema: Schema, unit: Unit, table: Table) -> npt.NDArray[np.int64]:
    name = unit.column
    cells = _cells(table, name)
    reject_missing(name, cells, "Who a record is about must be known.")
    spelled = np.array([is_spelled_missing(each) for each in cells], dtype=bool)
    advice = "A text such as NA would merge all persons without an identifier."
    reject(name, spelled, "a person's identifier", advice)
    rounded = np.array([is_rounded(each, schema.decimal) for each in cells], dtype=bool)
    advice = "Rounding may merge several persons: export the column as text or whole numbers."
    reject(name, rounded, "a person's identifier with all its digits", advice)
    numbers: dict[str, int] = {}
    people = [identity_of(each, schema.decimal) for each in cells]
    return np.array([numbers.setdefault(each, len(numbers)) for each in people], dtype=np.int64)


def _cells(table: Table, name: str) -> Cells:
    if name not in table:
        given = f"columns {names_in(sorted(table))}"
        allowed = f"columns that include the schema's {name!r}"
        raise ArgumentError("records", given, allowed, code="data")
    return table[name]
