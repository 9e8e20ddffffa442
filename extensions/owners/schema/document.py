"""A schema as a TOML file, which owners read, edit and give each other."""

import json
import tomllib
from pathlib import Path
from typing import Any

from extensions.errors import ArgumentError
from extensions.owners.schema.cells import Mark
from extensions.owners.schema.schema import (
    Schema,
    Target,
    Unit,
    column_of,
    ends_of,
    list_of,
    numbers_of,
)
from extensions.rules import one_of

_KEYS = {"basis", "separator", "decimal", "target", "unit", "columns"}
_TARGET = {"column", "task", "classes", "weights", "range", "outside"}


def read_schema(path: Path) -> Schema:
    """Returns the schema in a TOML file.

    Raises:
        ArgumentError: no such file, no TOML, or what no schema may say; the place is named.
    """
    try:
        said = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        advice = f"{error}. `pea schema` drafts one."
        raise ArgumentError("schema", str(path), "a file of TOML", advice, code="file") from error
    _check_keys("schema", said, _KEYS)
    columns, target, unit = (_table(said, name) for name in ("columns", "target", "unit"))
    _check_keys("target", target, _TARGET)
    _check_keys("unit", unit, {"column", "rows"})
    mark = said.get("decimal", ".")
    return Schema(
        basis=said.get("basis", "draft"),
        separator=said.get("separator", ","),
        decimal=mark,
        target=_target(target, mark),
        unit=Unit(**{"column": "", **unit}) if unit else None,
        columns=tuple(column_of(name, _table(columns, name), mark) for name in columns),
    )


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


def _target(said: dict[str, Any], mark: Mark) -> Target:
    ends = said.get("range")
    target = Target(
        column=str(said.get("column", "")),
        classes=tuple(list_of("target.classes", said.get("classes", []), mark)),
        weights=tuple(numbers_of("target.weights", said.get("weights", []))),
        range=None if ends is None else ends_of("target.range", ends),
        outside=said.get("outside", "refuse"),
    )
    task = "classification" if target.classes else "regression"
    if said.get("task", task) != task:
        allowed = f"{task!r} with what the target has"
        advice = "A classification has classes, a regression a range."
        raise ArgumentError("target.task", said["task"], allowed, advice)
    return target


def _table(said: dict[str, Any], name: str) -> dict[str, Any]:
    part = said.get(name, {})
    if not isinstance(part, dict):
        raise ArgumentError(name, part, f"a table of TOML, [{name}]", code="type")
    return part


def _check_keys(name: str, said: dict[str, Any], known: set[str]) -> None:
    for key in sorted(said.keys() - known):
        raise ArgumentError(name, key, one_of(sorted(known)))


def _section(name: str, entries: dict[str, Any]) -> str:
    return f"[{name}]\n{_entries(entries)}"


def _entries(entries: dict[str, Any]) -> str:
    return "\n".join(f"{key} = {toml_value(x)}" for key, x in entries.items())
