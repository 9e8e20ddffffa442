"""What all parties know of their tables before anybody looks at a record, and its TOML file."""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from extensions.data.schema.cells import Mark, Separator, label_of
from extensions.data.schema.columns import Category, Column, Number, check_names, check_range
from extensions.errors import ArgumentError
from extensions.rules import PART, Each, Whole, check_fields, one_of

Task = Literal["classification", "regression"]
Basis = Literal["draft", "public", "data"]

_KEYS = {"basis", "separator", "decimal", "target", "unit", "columns"}
_TARGET = {"column", "task", "classes", "weights", "range", "outside"}


@dataclass(frozen=True, kw_only=True)
class Target:
    """The column that is learnt.

    Attributes:
        classes: of a classification, in the order of their numbers.
        weights: how much a record of each class counts, in (0, 1], such as the inverse of how
            frequent it is known to be; by default all count alike.
        range: lowest and highest value of a regression.
        outside: "refuse" a value beyond the range, or "clip" it to the nearer end.
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
    """The column that names the person whom a record is about; of one person k = `rows` count."""

    column: str
    rows: int = 1

    def __post_init__(self) -> None:
        Whole(1).check("unit.rows", self.rows)


@dataclass(frozen=True, kw_only=True)
class Schema:
    """States what a table's columns hold; public, and the same at every party.

    Attributes:
        columns: the columns to learn from, in the order of the features.
        unit: the person that records are about; None if each person has one record.
        basis: where ranges and categories come from: "public" knowledge; the owners' "data", which
            epsilon does not cover; or a "draft", which every run rejects until you confirm it.
        separator: character between the cells of a CSV file: , ; | or a tab.
        decimal: the decimal mark of its numbers, a point or a comma.

    Examples:
        >>> from extensions.data.schema.columns import Category, Number
        >>> from extensions.data.schema.schema import Target
        >>> from extensions.estimator import Schema
        >>> ward = Category(name="ward", categories=("north", "south"))
        >>> schema = Schema(
        ...     target=Target(column="ill", classes=("no", "yes")),
        ...     columns=(Number(name="age", low=0, high=100), ward),
        ...     basis="public",
        ... )
        >>> schema.features
        ('age', 'ward=north', 'ward=south')
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
                raise ArgumentError("columns", name, "in only one of columns, target and unit")

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
    def settings(self) -> dict[str, Any]:
        """What settings of a run follow from it, by name."""
        return {
            "classes": len(self.target.classes) or 1,
            "facts": self.facts(),
            "class_weights": self.target.weights or None,
            "rows_per_unit": 1 if self.unit is None else self.unit.rows,
            "data_kind": "tables",
        }

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the numbers that a record becomes, in order."""
        return tuple(name for column in self.columns for name in column.outputs)

    def check_confirmed(self) -> None:
        """Checks that somebody said where the schema's ranges come from."""
        if self.basis == "draft":
            raise ArgumentError(
                "basis",
                self.basis,
                "'public', or 'data'",
                "A draft comes from records and reveals some of them. Replace its ranges and "
                'categories by what is publicly known, then write `basis = "public"`. Or write '
                '`basis = "data"` if others may know them: epsilon does not cover them.',
                code="choice",
            )

    def facts(self) -> dict[str, Any]:
        """Returns all that it says, by name, as JSON has it: what all parties must have alike."""
        target = {name: _listed(value) for name, value in vars(self.target).items()}
        facts: dict[str, Any] = {
            "schema basis": self.basis,
            "schema target": target,
            "schema unit": None if self.unit is None else asdict(self.unit),
            "schema order of columns": [each.name for each in self.columns],
        }
        facts |= {f"schema {name}": mark for name, mark in self.marks.items()}
        return facts | {f"schema column {each.name}": each.entry() for each in self.columns}

    @classmethod
    def of_facts(cls, facts: Mapping[str, Any]) -> "Schema | None":
        """Returns the schema of which `facts` returned these; None if they tell of none."""
        if "schema basis" not in facts:
            return None
        names = facts["schema order of columns"]
        columns = {name: facts[f"schema column {name}"] for name in names}
        said = {key: facts[f"schema {key}"] for key in _KEYS if f"schema {key}" in facts}
        return cls.of({**said, "columns": columns})

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> "Schema":
        """Returns the schema that a file of TOML says, by its names."""
        _check_keys("schema", said, _KEYS)
        columns, target, unit = (_table(said, name) for name in ("columns", "target", "unit"))
        _check_keys("unit", unit, {"column", "rows"})
        mark = said.get("decimal", ".")
        return cls(
            basis=said.get("basis", "draft"),
            separator=said.get("separator", ","),
            decimal=mark,
            target=_target(target, mark),
            unit=Unit(**{"column": "", **unit}) if unit else None,
            columns=tuple(_column(name, _table(columns, name), mark) for name in columns),
        )


def read_schema(path: Path) -> Schema:
    """Returns the schema in a TOML file."""
    try:
        said = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        advice = f"{error}. `pea schema` drafts one."
        raise ArgumentError("schema", str(path), "a file of TOML", advice, code="file") from error
    return Schema.of(said)


def to_toml(schema: Schema) -> str:
    """Returns the text of a file of which `read_schema` returns an equal schema."""
    target, unit = schema.target, schema.unit
    learnt: dict[str, Any] = {"task": schema.task, "column": target.column}
    if target.range is None:
        learnt["classes"] = list(target.classes)
        learnt |= {"weights": list(target.weights)} if target.weights else {}
    else:
        learnt |= {"range": list(target.range), "outside": target.outside}
    head = {"basis": schema.basis, **schema.marks}
    parts = [_entries(head), _section("target", learnt)]
    if unit is not None:
        parts.append(_section("unit", {"column": unit.column, "rows": unit.rows}))
    parts += [_section(f"columns.{toml_value(each.name)}", each.entry()) for each in schema.columns]
    return "\n\n".join(parts) + "\n"


def toml_value(value: Any) -> str:
    """Returns a text, number or list of them as TOML; JSON differs in one character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _section(name: str, entries: dict[str, Any]) -> str:
    return f"[{name}]\n{_entries(entries)}"


def _entries(entries: dict[str, Any]) -> str:
    return "\n".join(f"{key} = {toml_value(x)}" for key, x in entries.items())


def _target(said: Mapping[str, Any], mark: Mark) -> Target:
    _check_keys("target", said, _TARGET)
    ends = said.get("range")
    target = Target(
        column=str(said.get("column", "")),
        classes=_texts("target.classes", said.get("classes", []), mark),
        weights=tuple(_numbers("target.weights", said.get("weights", []))),
        range=None if ends is None else _ends("target.range", ends),
        outside=said.get("outside", "refuse"),
    )
    task = "classification" if target.classes else "regression"
    if said.get("task", task) != task:
        allowed = f"{task!r}, because of the target"
        advice = "A classification has classes, and a regression has a range."
        raise ArgumentError("target.task", said["task"], allowed, advice)
    return target


def _column(name: str, entry: Mapping[str, Any], mark: Mark) -> Column:
    """Returns a column, of what `Column.entry` says of it."""
    given, place = dict(entry), f"columns.{name}"
    kind = Number if "range" in given else Category
    if ("range" in given) == ("categories" in given):
        allowed = "a table with either `range = [low, high]` or `categories = [...]`"
        raise ArgumentError(place, sorted(given), allowed)
    of_kind = {"range", "scale"} if kind is Number else {"categories"}
    _check_keys(place, given, {"outside", "missing", "missing_values"} | of_kind)
    for key in given.keys() & {"categories", "missing_values"}:
        given[key] = _texts(f"{place}.{key}", given[key], mark)
    if kind is Number:
        given["low"], given["high"] = _ends(f"{place}.range", given.pop("range"))
    return kind(name=name, **given)


def _ends(name: str, value: Any) -> tuple[float, float]:
    numbers = _numbers(name, value)
    if len(numbers) != 2:
        raise ArgumentError(name, value, "[low, high], two numbers", code="type")
    return numbers[0], numbers[1]


def _numbers(name: str, value: Any) -> list[float]:
    if not isinstance(value, list) or not all(
        isinstance(each, int | float) and not isinstance(each, bool) for each in value
    ):
        raise ArgumentError(name, value, "a list of numbers (a range has two)", code="type")
    return [float(each) for each in value]


def _texts(name: str, value: Any, mark: Mark) -> tuple[str, ...]:
    """Returns the texts of classes or categories, whose decimal mark is given."""
    if not isinstance(value, list) or not all(isinstance(x, str | int | float) for x in value):
        raise ArgumentError(name, value, "a list of texts or numbers", code="type")
    return tuple(label_of(each, mark) for each in value)


def _table(said: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = said.get(name)
    if part is not None and not isinstance(part, dict):
        raise ArgumentError(name, part, f"a table of TOML, [{name}]", code="type")
    return part or {}


def _check_keys(name: str, said: Mapping[str, Any], known: set[str]) -> None:
    for key in sorted(said.keys() - known):
        raise ArgumentError(name, key, one_of(sorted(known)))


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
