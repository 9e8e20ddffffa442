"""What a column may hold, and the numbers that it becomes: a function of one value and this alone.

Each column becomes numbers whose norm is at most 1, whatever its values are.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from extensions.data.schema.cells import (
    Cells,
    Mark,
    is_missing,
    is_readable,
    is_spelled_missing,
    label_of,
    names_in,
    number_of,
    numbers_of,
)
from extensions.errors import ArgumentError
from extensions.ring.fixed_point import Reals
from extensions.rules import check_fields

Scale = Literal["linear", "log", "log1p"]
Outside = Literal["refuse", "clip"]
OutsideNames = Literal["refuse", "clip", "other"]
Missing = Literal["refuse", "indicator"]


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of numbers or of categories.

    Attributes:
        outside: what becomes of a value that the schema does not name.
        missing: "refuse" a missing value, or give all records an "indicator": a further number that
            is 1 where it is missing, else 0. The column's other numbers are 0 there.
        missing_values: what stands for a missing value, beside the empty cell: NA, -999.
    """

    name: str
    outside: OutsideNames = "refuse"
    missing: Missing = "refuse"
    missing_values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        try:
            check_fields(self)
        except ArgumentError as error:
            raise error.of(f"columns.{self.name}.{error.argument}") from None

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the numbers that it becomes."""
        indicator = self.missing == "indicator"
        return (*self._outputs, *([f"{self.name} is missing"] if indicator else []))

    @property
    def _outputs(self) -> tuple[str, ...]:
        return (self.name,)

    def encode(self, cells: Cells, mark: Mark = ".") -> tuple[Reals, int]:
        """Returns the column's numbers, (records, outputs), and how many values were clipped.

        The error of a value that the schema refuses names its record, and never the value.
        """
        spelled = {label_of(each, mark) for each in self.missing_values}
        absent = _where(lambda cell: is_missing(cell) or label_of(cell, mark) in spelled, cells)
        if self.missing == "refuse":
            advice = (
                'Write `missing = "indicator"` for the column in the schema, or drop the record.'
            )
            reject(self.name, absent, "filled in", advice)
        numbers, beyond, allowed = self._encode(cells, absent, mark)
        beyond &= ~absent
        if self.outside == "refuse":
            reject(self.name, beyond, allowed, 'Or write `outside = "clip"` there.')
        numbers[absent] = 0.0
        if self.missing == "indicator":
            numbers = np.hstack([numbers, absent[:, None].astype(np.float64)])
        return numbers, int(beyond.sum())

    def _encode(self, cells: Cells, absent: Any, mark: Mark) -> tuple[Reals, Any, str]:
        """Returns numbers, which values the schema does not name, and what it names."""
        raise NotImplementedError

    def entry(self) -> dict[str, Any]:
        """Returns what a file says of it."""
        listed = {"missing_values": list(self.missing_values)} if self.missing_values else {}
        return {**self._entry(), "outside": self.outside, "missing": self.missing, **listed}

    def _entry(self) -> dict[str, Any]:
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Number(Column):
    """A column of numbers in a public range, mapped to -1..1; the middle for a missing one.

    Attributes:
        scale: "linear"; "log" where ratios matter more than differences, of a range above 0; or
            "log1p", sign(v) log(1 + |v|), which takes zeros and negative numbers too. It is linear
            up to about 1, so that it depends on the unit.
        outside: "refuse" a value beyond the range, or "clip" it to the nearer end.
    """

    low: float
    high: float
    scale: Scale = "linear"
    outside: Outside = "refuse"

    def __post_init__(self) -> None:
        check_range(f"columns.{self.name}.range", self.low, self.high)
        super().__post_init__()
        if self.scale == "log" and self.low <= 0:
            raise ArgumentError(
                f"columns.{self.name}.range",
                [self.low, self.high],
                'above 0 because of scale = "log"',
                'scale = "log1p" also takes zeros and negative numbers.',
                code="range",
            )

    def at(self, places: Reals) -> Reals:
        """Returns the values at parts of the range, 0..1, on the column's scale."""
        low, high = bent(self.scale, np.array([self.low, self.high]))
        placed: Reals = low + (high - low) * places
        if self.scale == "log":
            placed = np.exp(placed)
        return np.sign(placed) * np.expm1(np.abs(placed)) if self.scale == "log1p" else placed

    def _encode(self, cells: Cells, absent: Any, mark: Mark) -> tuple[Reals, Any, str]:
        values = np.where(absent, self.low, numbers_in(self.name, cells, mark, but=absent))
        beyond = (values < self.low) | (values > self.high)
        ends = bent(self.scale, np.array([self.low, self.high]))
        placed = bent(self.scale, np.clip(values, self.low, self.high))
        numbers: Reals = (placed - ends.mean()) / ((ends[1] - ends[0]) / 2)
        return numbers[:, None], beyond, f"in {self.low:g}..{self.high:g}, the schema's range"

    def _entry(self) -> dict[str, Any]:
        scale = {"scale": self.scale} if self.scale != "linear" else {}
        return {"range": [self.low, self.high], **scale}


@dataclass(frozen=True, kw_only=True)
class Category(Column):
    """A column of one of several public categories: a number each, 1 for its own, else 0.

    All of them less 1 / number of categories, so that they are 0 on average. A value that is none
    of them is refused, or with outside = "clip" has zeros, or with "other" is one more category.
    """

    categories: tuple[str, ...]

    def __post_init__(self) -> None:
        check_names(f"columns.{self.name}.categories", self.categories)
        super().__post_init__()

    @property
    def _outputs(self) -> tuple[str, ...]:
        other = (f"{self.name} is other",) if self.outside == "other" else ()
        return (*(f"{self.name}={each}" for each in self.categories), *other)

    def _encode(self, cells: Cells, absent: Any, mark: Mark) -> tuple[Reals, Any, str]:
        _reject_others(self.name, cells)
        count = len(self.categories)
        places = {label_of(name, mark): place for place, name in enumerate(self.categories)}
        other = count if self.outside == "other" else -1
        found = np.array([places.get(label_of(each, mark), other) for each in cells], np.int64)
        count += self.outside == "other"
        numbers = np.zeros((len(cells), count))
        numbers[found >= 0] = np.eye(count)[found[found >= 0]] - 1.0 / count
        return numbers, found < 0, f"one of the schema's categories, {names_in(self.categories)}"

    def _entry(self) -> dict[str, Any]:
        return {"categories": list(self.categories)}


def check_range(name: str, low: float, high: float) -> None:
    """Checks that low and high are the ends of a range."""
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        allowed = "two finite numbers, the smaller one first"
        raise ArgumentError(name, [low, high], allowed, code="range")


def check_names(name: str, names: Sequence[str]) -> None:
    """Checks that there are several names, all of them different and present."""
    texts = [label_of(each) for each in names]
    if len(texts) < 2 or len(set(texts)) < len(texts) or any(is_missing(each) for each in texts):
        raise ArgumentError(name, list(names), "at least two values, all different and none empty")


def bent(scale: Scale, values: Reals) -> Reals:
    """Returns numbers on a scale; with "log" all are above 0."""
    if scale == "log1p":
        return np.sign(values) * np.log1p(np.abs(values))
    return np.log(values) if scale == "log" else values


def reject_missing(name: str, cells: Cells, advice: str) -> None:
    """Checks that every record has a value in the column, which is text or a number."""
    reject(name, _where(is_missing, cells), "filled in", advice)
    _reject_others(name, cells)


def numbers_in(name: str, cells: Cells, mark: Mark, but: Any = False, advice: str = "") -> Reals:
    """Returns a column's numbers, (records,), NaN where `but` says that none is needed.

    The advice comes before what the value suggests.
    """
    numbers = numbers_of(cells, mark)
    wrong = np.isnan(numbers) & ~np.asarray(but, dtype=bool)
    if wrong.any():
        cell = cells[int(np.argmax(wrong))]
        if is_missing(cell):
            reject(name, wrong, "filled in", f"{advice} Or drop the record.".strip())
        other: Mark = "," if mark == "." else "."
        if is_spelled_missing(cell):
            advice += " If it stands for a missing value, list it in the schema's column, as in "
            advice += 'missing_values = ["NA"].'
        elif isinstance(cell, str) and not math.isnan(number_of(cell, other)):
            advice += f' If "{other}" is its decimal mark, write decimal = "{other}" in the schema.'
        reject(name, wrong, "a finite number", advice.strip())
    return numbers


def reject(name: str, wrong: Any, allowed: str, advice: str = "") -> None:
    """Checks that no record's value in the column is wrong, (records,).

    The error names the first such record, counted from 1.
    """
    if wrong.any():
        row = int(np.argmax(wrong)) + 1
        raise ArgumentError("records", f"record {row}, column {name}", allowed, advice, code="data")


def _reject_others(name: str, cells: Cells) -> None:
    wrong = _where(lambda cell: not is_missing(cell) and not is_readable(cell), cells)
    advice = "A schema leaves out what it does not name (`pea schema` drafts one)."
    reject(name, wrong, "text or a number, and no other type of a Parquet file", advice)


def _where(holds: Callable[[Any], bool], cells: Cells) -> Any:
    return np.array([holds(each) for each in cells], dtype=bool)
