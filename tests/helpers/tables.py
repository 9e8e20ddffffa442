"""Tables of random records by a public schema, for additive models."""

from typing import Any

import numpy as np

from extensions.data.datasets import Split
from extensions.data.schema import Category, Number, Schema, Target
from extensions.data.schema.encoding import encode_table

COLUMNS = (
    Number(name="age", low=0.0, high=100.0, outside="clip"),
    Number(name="income", low=0.0, high=1e5, outside="clip", missing="indicator"),
    Category(name="job", categories=("a", "b", "c"), outside="other", missing="indicator"),
    Category(name="town", categories=("x", "y"), outside="clip"),
)


def schema_of(classes: int = 2, columns: Any = COLUMNS, **settings: Any) -> Schema:
    """Returns a schema of that many classes; of a number with one."""
    names = tuple(map(str, range(classes)))
    target = (
        Target(column="y", range=(0.0, 10.0)) if classes == 1 else Target(column="y", classes=names)
    )
    return Schema(target=target, columns=columns, basis="public", **settings)


def cells_of(schema: Schema, rows: int, draw: np.random.Generator) -> dict[str, Any]:
    """Returns a table of random cells, some of which are missing or beyond the schema."""
    table: dict[str, Any] = {}
    for column in schema.columns:
        if isinstance(column, Number):
            values = draw.gamma(2.0, column.high / 6, rows).round(1).astype(object)
        else:
            names = [*column.categories, "none of them"]
            values = draw.choice(np.array(names, dtype=object), rows)
        if column.missing == "indicator":
            values[draw.random(rows) < 0.1] = None
        table[column.name] = values
    return table


def table_of(
    schema: Schema, rows: int, seed: int = 0, *, noise: float = 1.0, repeat: bool = False
) -> tuple[dict[str, Any], Any]:
    """Returns a table and its targets, which follow curves of age and job.

    If columns repeat each other, all whose names begin with "age" are the same.
    """
    draw = np.random.default_rng(seed)
    table = cells_of(schema, rows, draw)
    if repeat:
        table |= {name: table["age"] for name in table if name.startswith("age")}
    first = np.array(table["age"], float) / 30.0 - 1.0
    job = np.array([each == "b" for each in table["job"]], float)
    scores = 3.0 * np.abs(first) - 1.5 + 1.5 * job + noise * draw.logistic(size=rows)
    if schema.target.range is not None:
        y = np.clip(5.0 + scores, 0.0, 10.0)
    else:
        edges = np.quantile(scores, np.linspace(0, 1, len(schema.target.classes) + 1)[1:-1])
        y = np.searchsorted(edges, scores)
    table["y"] = np.array([*y], object)
    return table, y


def splits_of(
    schema: Schema, rows: int, parties: int = 3, seed: int = 0, **how: Any
) -> list[Split]:
    """Returns as many owners' records, a fifth of which is held out."""
    found = []
    for rank in range(parties):
        table, _ = table_of(schema, rows // parties, seed * parties + rank, **how)
        encoded = encode_table(schema, table)
        cut = len(encoded.x) // 5
        found.append(
            Split(
                train_x=encoded.x[cut:],
                train_y=encoded.y[cut:],
                test_x=encoded.x[:cut],
                test_y=encoded.y[:cut],
                recipe=schema.facts(),
                classes=schema.settings["classes"],
                schema=schema,
            )
        )
    return found
