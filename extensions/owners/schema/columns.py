"""What a column may hold, and the numbers that it becomes: a function of one value and this alone.

Each column becomes numbers whose norm is at most 1, whatever its values are.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from extensions.errors import ArgumentError
from extensions.owners.schema.cells import Cells, is_missing, label_of, number_of
from extensions.ring.fixed_point import Reals

Scale = Literal["linear", "log"]
Outside = Literal["refuse", "clip"]
Missing = Literal["refuse", "indicator"]

PRESENT = 'write `missing = "indicator"` for the column in the schema, or drop the record'


@dataclass(frozen=True, kw_only=True)
class Number:
    """A column of numbers in a public range, mapped to -1..1.

    Attributes:
        name: of the column.
        low: lower end of its range.
        high: upper end.
        scale: "linear", or "log" where ratios matter more than differences.
        outside: "refuse" a value beyond the range, or "clip" it to the nearer end.
        missing: "refuse" a missing value, or take the middle of the range for it and give all
            records an "indicator": a further number that is 1 where it is missing, else 0.

    Raises:
        ArgumentError: no range, or one that its scale cannot have.
    """

    name: str
    low: float
    high: float
    scale: Scale = "linear"
    outside: Outside = "refuse"
    missing: Missing = "refuse"

    def __post_init__(self) -> None:
        check_range(f"columns.{self.name}.range", self.low, self.high)
        _check_choice(self.name, "scale", self.scale, get_args(Scale))
        _check_choice(self.name, "outside", self.outside, get_args(Outside))
        _check_choice(self.name, "missing", self.missing, get_args(Missing))
        if self.scale == "log" and self.low <= 0:
            raise ArgumentError(
                f"columns.{self.name}.range",
                [self.low, self.high],
                'above 0 with scale = "log"',
            )

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the numbers that it becomes."""
        return (self.name, *_indicator(self))

    def encode(self, cells: Cells) -> tuple[Reals, int]:
        """Returns the column's numbers, (records, outputs), and how many values were clipped.

        Raises:
            ArgumentError: a value that the schema refuses; its record is named, and never it.
        """
        absent = _absent(self, cells)
        values = np.array([number_of(value) for value in cells])
        refuse(self.name, np.isnan(values) & ~absent, "a number")
        middle = _bent(self, (self.low, self.high)).mean()
        values = np.where(absent, self.low, values)
        beyond = (values < self.low) | (values > self.high)
        if self.outside == "refuse":
            allowed = f"in {self.low:g}..{self.high:g}, the schema's range"
            refuse(self.name, beyond, allowed, 'Or write `outside = "clip"` there.')
        ends = _bent(self, (self.low, self.high))
        bent = _bent(self, np.clip(values, self.low, self.high))
        numbers = np.where(absent, 0.0, (bent - middle) / ((ends[1] - ends[0]) / 2))
        return _with_indicator(self, numbers[:, None], absent), int(beyond.sum())

    def entry(self) -> dict[str, Any]:
        """Returns what a file says of it."""
        scale = {"scale": self.scale} if self.scale != "linear" else {}
        given = {"range": [self.low, self.high], **scale, "outside": self.outside}
        return given | {"missing": self.missing}


@dataclass(frozen=True, kw_only=True)
class Category:
    """A column of one of several public categories: a number each, 1 for its own, else 0.

    All of them less 1 / number of categories, so that they are 0 on average.

    Attributes:
        name: of the column.
        categories: in order.
        outside: "refuse" what is none of them, or "clip" it: then all its numbers are 0.
        missing: "refuse" a missing value, or take 0 for all its numbers, and an "indicator".

    Raises:
        ArgumentError: fewer than two categories, or one twice.
    """

    name: str
    categories: tuple[str, ...]
    outside: Outside = "refuse"
    missing: Missing = "refuse"

    def __post_init__(self) -> None:
        check_names(f"columns.{self.name}.categories", self.categories)
        _check_choice(self.name, "outside", self.outside, get_args(Outside))
        _check_choice(self.name, "missing", self.missing, get_args(Missing))

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the numbers that it becomes."""
        return (*(f"{self.name}={each}" for each in self.categories), *_indicator(self))

    def encode(self, cells: Cells) -> tuple[Reals, int]:
        """Returns the column's numbers, (records, outputs), and how many values were clipped.

        Raises:
            ArgumentError: a value that the schema refuses; its record is named, and never it.
        """
        absent = _absent(self, cells)
        places = {label_of(name): place for place, name in enumerate(self.categories)}
        found = np.array([places.get(label_of(value), -1) for value in cells], dtype=np.int64)
        beyond = (found < 0) & ~absent
        if self.outside == "refuse":
            allowed = f"one of the schema's categories, {', '.join(self.categories)}"
            refuse(self.name, beyond, allowed, 'Or write `outside = "clip"` there.')
        count = len(self.categories)
        numbers = np.zeros((len(cells), count))
        known = (found >= 0) & ~absent
        numbers[known] = np.eye(count)[found[known]] - 1.0 / count
        return _with_indicator(self, numbers, absent), int(beyond.sum())

    def entry(self) -> dict[str, Any]:
        """Returns what a file says of it."""
        given = {"categories": list(self.categories), "outside": self.outside}
        return given | {"missing": self.missing}


Column = Number | Category


def check_range(name: str, low: float, high: float) -> None:
    """Returns only if low and high are the ends of a range.

    Raises:
        ArgumentError: they are not.
    """
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ArgumentError(name, [low, high], "two finite numbers, the smaller one first")


def check_names(name: str, names: Sequence[str]) -> None:
    """Returns only if there are several names, all of them different and present.

    Raises:
        ArgumentError: they are not.
    """
    texts = [label_of(each) for each in names]
    if len(texts) < 2 or len(set(texts)) < len(texts) or any(is_missing(each) for each in texts):
        raise ArgumentError(name, list(names), "at least two values, all different and none empty")


def refuse_missing(name: str, cells: Cells, advice: str) -> None:
    """Returns only if every record has a value in the column.

    Raises:
        ArgumentError: one has none; it is named.
    """
    absent = np.array([is_missing(value) for value in cells], dtype=bool)
    refuse(name, absent, "there: it is missing", advice)


def refuse(name: str, wrong: Any, allowed: str, advice: str = "") -> None:
    """Returns only if no record's value in the column is wrong.

    Args:
        name: of the column.
        wrong: whether a record's value is, (records,).
        allowed: what it must be.
        advice: next step.

    Raises:
        ArgumentError: one is; the first such record is named, counted from 1.
    """
    if wrong.any():
        row = int(np.argmax(wrong)) + 1
        raise ArgumentError("records", f"record {row}, column {name}", allowed, advice)


def _check_choice(column: str, name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ArgumentError(f"columns.{column}.{name}", value, f"one of {allowed}")


def _indicator(column: Column) -> tuple[str, ...]:
    return (f"{column.name} is missing",) if column.missing == "indicator" else ()


def _absent(column: Column, cells: Cells) -> Any:
    if column.missing == "refuse":
        refuse_missing(column.name, cells, f"{PRESENT[0].upper()}{PRESENT[1:]}.")
    return np.array([is_missing(value) for value in cells], dtype=bool)


def _with_indicator(column: Column, numbers: Reals, absent: Any) -> Reals:
    if column.missing == "refuse":
        return numbers
    return np.hstack([numbers, absent[:, None].astype(np.float64)])


def _bent(column: Number, values: Any) -> Reals:
    reals = np.asarray(values, dtype=np.float64)
    return np.log(reals) if column.scale == "log" else reals
