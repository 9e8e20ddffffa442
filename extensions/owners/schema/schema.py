"""What all parties know of their tables before anybody looks at a record."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from extensions.errors import ArgumentError
from extensions.owners.schema.cells import Mark, Separator, label_of
from extensions.owners.schema.columns import (
    Category,
    Column,
    Number,
    check_names,
    check_range,
)
from extensions.rules import PART, Each, Whole, check_fields, one_of

Task = Literal["classification", "regression"]
Basis = Literal["draft", "public", "data"]


@dataclass(frozen=True, kw_only=True)
class Target:
    """The column that is learnt.

    Attributes:
        column: its name.
        classes: of a classification, in the order of their numbers.
        weights: how much a record of each class counts, in (0, 1], such as the inverse of how
            frequent it is known to be; by default all count alike.
        range: lowest and highest value of a regression.
        outside: "refuse" a value beyond the range, or "clip" it to the nearer end.

    Raises:
        ArgumentError: neither classes nor a range, or both.
    """

    column: str
    classes: tuple[str, ...] = ()
    weights: tuple[float, ...] = ()
    range: tuple[float, float] | None = None
    outside: Literal["refuse", "clip"] = "refuse"

    def __post_init__(self) -> None:
        if bool(self.classes) == (self.range is not None):
            given = (list(self.classes), self.range)
            allowed = "the target classes for a classification, or a range for a regression"
            raise ArgumentError("target.classes, target.range", given, allowed, code="either")
        if self.classes:
            check_names("target.classes", self.classes)
        if self.range is not None:
            check_range("target.range", *self.range)
        if self.weights and len(self.weights) != len(self.classes):
            allowed = f"one for each of {len(self.classes)} classes"
            raise ArgumentError("target.weights", list(self.weights), allowed, code="shape")
        Each(PART).check("target.weights", self.weights)
        one_of(("refuse", "clip")).check("target.outside", self.outside)


@dataclass(frozen=True, kw_only=True)
class Unit:
    """The column that names the person whom a record is about.

    Attributes:
        column: its name.
        rows: k, the most records of one person that count.

    Raises:
        ArgumentError: fewer than one.
    """

    column: str
    rows: int = 1

    def __post_init__(self) -> None:
        if isinstance(self.rows, bool) or not isinstance(self.rows, int) or self.rows < 1:
            raise ArgumentError("unit.rows", self.rows, Whole(1))


@dataclass(frozen=True, kw_only=True)
class Schema:
    """A public schema, the same at every party.

    Attributes:
        target: what is learnt.
        columns: what it is learnt from, in the order of the features.
        unit: whom the records are about; None where each record is a person's only one.
        basis: where ranges and categories come from: "public" knowledge; the owners' "data", which
            epsilon does not cover; or a "draft" that nobody has looked at, which no run takes.
        separator: what stands between the cells of a CSV file: , ; | or a tab.
        decimal: the decimal mark of its numbers, a point or a comma.

    Raises:
        ArgumentError: no columns, one that stands for two things, or an unknown mark.
    """

    target: Target
    columns: tuple[Column, ...]
    unit: Unit | None = None
    basis: Basis = "draft"
    separator: Separator = ","
    decimal: Mark = "."

    def __post_init__(self) -> None:
        if not self.columns:
            raise ArgumentError("columns", [], "at least one column", code="range")
        check_fields(self)
        named = [each.name for each in self.columns] + [self.target.column]
        named += [] if self.unit is None else [self.unit.column]
        for name in named:
            if named.count(name) > 1:
                raise ArgumentError("columns", name, "named once among columns, target and unit")

    @property
    def task(self) -> Task:
        """What kind of thing is learnt."""
        return "classification" if self.target.classes else "regression"

    @property
    def marks(self) -> dict[str, str]:
        """Separator and decimal mark by name, but for the usual ones."""
        marks = {"separator": self.separator, "decimal": self.decimal}
        usual = {"separator": ",", "decimal": "."}
        return {name: mark for name, mark in marks.items() if mark != usual[name]}

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the numbers that a record becomes, in order."""
        return tuple(name for column in self.columns for name in column.outputs)

    def check_confirmed(self) -> None:
        """Returns only if somebody said where the schema's ranges come from.

        Raises:
            ArgumentError: it is a draft.
        """
        if self.basis == "draft":
            raise ArgumentError(
                "basis",
                self.basis,
                "'public', or 'data'",
                "A draft is made of records, which its ranges and categories give away. Replace "
                'them by what is publicly known, then write `basis = "public"` in the schema; or '
                '`basis = "data"`, if it may be known: epsilon does not cover it.',
                code="choice",
            )

    def facts(self) -> dict[str, Any]:
        """Returns all that it says, by name, as JSON has it: what all parties must have alike."""
        facts: dict[str, Any] = {
            "schema basis": self.basis,
            "schema target": _as_json(asdict(self.target)),
            "schema unit": None if self.unit is None else asdict(self.unit),
            "schema order of columns": [each.name for each in self.columns],
        }
        facts |= {f"schema {name}": mark for name, mark in self.marks.items()}
        return facts | {f"schema column {each.name}": each.entry() for each in self.columns}

    @property
    def text(self) -> str:
        """The schema as canonical JSON: equal schemas, and only these, have equal texts."""
        columns = [{"name": each.name, **_as_json(each.entry())} for each in self.columns]
        said = {
            "basis": self.basis,
            "target": _as_json(asdict(self.target)),
            "unit": None if self.unit is None else asdict(self.unit),
            "columns": columns,
            **self.marks,
        }
        return json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=True)

    @property
    def digest(self) -> str:
        """SHA-256 of `text`, in hexadecimal."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @classmethod
    def of(cls, text: str) -> "Schema":
        """Returns the schema of which `text` returned this."""
        said = json.loads(text)
        columns = {each.pop("name"): each for each in said["columns"]}
        return cls._of({**said, "columns": columns})

    @classmethod
    def of_facts(cls, facts: Mapping[str, Any]) -> "Schema | None":
        """Returns the schema of which `facts` returned these; None if they tell of none."""
        if "schema basis" not in facts:
            return None
        names = facts["schema order of columns"]
        columns = {name: facts[f"schema column {name}"] for name in names}
        keys = ("basis", "target", "unit", "separator", "decimal")
        said = {key: facts[f"schema {key}"] for key in keys if f"schema {key}" in facts}
        return cls._of({**said, "columns": columns})

    @classmethod
    def _of(cls, said: Mapping[str, Any]) -> "Schema":
        target, unit = said["target"], said["unit"]
        ends, mark = target["range"], said.get("decimal", ".")
        return cls(
            basis=said["basis"],
            separator=said.get("separator", ","),
            decimal=mark,
            target=Target(
                column=target["column"],
                classes=tuple(target["classes"]),
                weights=tuple(target["weights"]),
                range=None if ends is None else ends_of("target.range", [*ends]),
                outside=target["outside"],
            ),
            unit=None if unit is None else Unit(**unit),
            columns=tuple(column_of(name, each, mark) for name, each in said["columns"].items()),
        )


def column_of(name: str, entry: dict[str, Any], mark: Mark = ".") -> Column:
    """Returns a column, of what `Number.entry` or `Category.entry` says of it.

    Args:
        name: of the column.
        entry: what is said.
        mark: the decimal mark of texts.

    Raises:
        ArgumentError: a key that no such column has, or neither a range nor categories.
    """
    given = dict(entry)
    kind = Number if "range" in given else Category
    if ("range" in given) == ("categories" in given):
        allowed = "a table with either `range = [low, high]` or `categories = [...]`"
        raise ArgumentError(f"columns.{name}", sorted(given), allowed)
    known = {"outside", "missing", "missing_values"} | (
        {"range", "scale"} if kind is Number else {"categories"}
    )
    for key in given.keys() - known:
        raise ArgumentError(f"columns.{name}", key, one_of(sorted(known)))
    for key in ("categories", "missing_values"):
        if key in given:
            given[key] = tuple(list_of(f"columns.{name}.{key}", given[key], mark))
    if kind is Category:
        return Category(name=name, **given)
    low, high = ends_of(f"columns.{name}.range", given.pop("range"))
    return Number(name=name, low=low, high=high, **given)


def ends_of(name: str, value: Any) -> tuple[float, float]:
    """Returns the two ends of a range.

    Raises:
        ArgumentError: they are not two numbers.
    """
    numbers = numbers_of(name, value)
    if len(numbers) != 2:
        raise ArgumentError(name, value, "[low, high], two numbers", code="type")
    return numbers[0], numbers[1]


def numbers_of(name: str, value: Any) -> list[float]:
    """Returns the numbers of a list.

    Raises:
        ArgumentError: it is no list of numbers.
    """
    if not isinstance(value, list) or not all(
        isinstance(each, int | float) and not isinstance(each, bool) for each in value
    ):
        raise ArgumentError(name, value, "a list of numbers, of a range two numbers", code="type")
    return [float(each) for each in value]


def list_of(name: str, value: Any, mark: Mark = ".") -> list[str]:
    """Returns the texts of classes or categories, whose decimal mark is given.

    Raises:
        ArgumentError: they are no list of texts or numbers.
    """
    if not isinstance(value, list) or not all(isinstance(x, str | int | float) for x in value):
        raise ArgumentError(name, value, "a list of texts or numbers", code="type")
    return [label_of(each, mark) for each in value]


def _as_json(said: dict[str, Any]) -> dict[str, Any]:
    return {key: list(value) if isinstance(value, tuple) else value for key, value in said.items()}
