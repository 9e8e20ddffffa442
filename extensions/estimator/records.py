"""Records in memory: arrays and frames of several owners, as what a run takes of each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from warnings import warn

import narwhals as nw
import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_array

from extensions.data.datasets import Split
from extensions.data.datasets.records import Raw, facts_of, kind_of
from extensions.data.datasets.tables import class_names, class_numbers
from extensions.data.schema import Schema, Table, drafted, encode_table, label_of, read_schema
from extensions.data.schema.encoding import encode_unlabelled
from extensions.errors import ArgumentError, PrivacyWarning
from extensions.estimator.noisy_schema import SchemaBudget
from extensions.ring.fixed_point import Reals

FROM_DATA = "from-data"
TARGET = "y"
"""Name of the column of labels, where no schema names it."""
READ_OFF = (
    "The schema's ranges and categories come from the records. The model reveals them, and epsilon "
    "does not cover them."
)
Given = Any
"""A frame that narwhals knows (pandas, polars, Arrow), an array, or a list of rows."""


@dataclass(frozen=True)
class Known:
    """What is public of the records before anybody looks at one, or was read off them.

    Attributes:
        columns: names of a table's columns; empty for images and texts.
        labels: classes in the order of the model's outputs, as they were given; empty where a
            number is learnt.
        schema: of a table, or None: rows of numbers are then cut to norm 1.
    """

    columns: tuple[str, ...]
    labels: tuple[Any, ...]
    schema: Schema | None

    def split(self, x: Given, y: npt.ArrayLike) -> Split:
        """Returns one owner's training records, and none that are held out."""
        labels = np.asarray(y)
        if self.schema is None:
            rows, classes = self.rows(x), [label_of(each) for each in self.labels]
            facts: dict[str, Any] = dict(facts_of(self.columns, classes))
            numbers = class_numbers([label_of(each) for each in labels], classes, TARGET)
            found = Split(train_x=rows, train_y=numbers, test_x=rows[:0], test_y=numbers[:0])
            return replace(found, recipe=facts, classes=len(classes))
        cells = {self.schema.target.column: _cells(labels)}
        one = encode_table(self.schema, {**_table(x, self.columns), **cells})
        return Split(
            train_x=one.x,
            train_y=one.y,
            test_x=one.x[:0],
            test_y=one.y[:0],
            train_units=one.units,
            recipe=self.schema.facts(),
            classes=self.schema.settings["classes"],
            schema=self.schema,
            clipped=one.clipped,
            left_out=one.left_out,
        )

    def rows(self, x: Given) -> Raw:
        """Returns records without labels: a schema's features, or what they are."""
        if self.schema is not None:
            rows: Raw = encode_unlabelled(self.schema, _table(x, self.columns)).x
            return rows
        table = table_of(x)
        if table is None:
            return array_of(x)
        _check_columns(self.columns, tuple(table))
        return array_of(np.stack([table[name] for name in self.columns], axis=1))


def encode_frame(frame: Given, schema: Schema | str | Path) -> tuple[Reals, npt.NDArray[Any]]:
    """Returns a frame's records as numbers, for a script of your own.

        x, y = encode_frame(pandas.read_csv("hospital.csv"), "schema.toml")

    Args:
        frame: pandas, polars or Arrow, with the schema's columns and its target; others are left
            out.
        schema: the schema, or the path of its file.

    Returns features, (records, features), rows of norm below 1; and class numbers, or targets in
    [0, 1], (records,). Each row is a function of its own record and the schema alone.

    Raises:
        ArgumentError: a column is missing, or a value does not fit the schema; the error names
            record and column, and keeps the value secret.

    Examples:
        >>> import pandas as pd
        >>> from extensions.data.schema.columns import Number
        >>> from extensions.data.schema.schema import Target
        >>> from extensions.estimator import Schema, encode_frame
        >>> target = Target(column="ill", classes=("no", "yes"))
        >>> age = Number(name="age", low=0, high=100)
        >>> schema = Schema(target=target, columns=(age,), basis="public")
        >>> frame = pd.DataFrame({"age": [50, 100], "ill": ["no", "yes"]})
        >>> x, y = encode_frame(frame, schema)
        >>> x.shape, y.tolist()
        ((2, 1), [0, 1])
    """
    read = schema if isinstance(schema, Schema) else read_schema(Path(schema))
    table = table_of(frame)
    if table is None:
        raise ArgumentError("frame", type(frame).__name__, "a frame of named columns", code="type")
    found = encode_table(read, table)
    return found.x, found.y


def known_of(
    xs: Sequence[Given],
    ys: Sequence[npt.ArrayLike],
    schema: Any,
    target: Sequence[Any] | None,
    *,
    numbers: bool,
    counted: SchemaBudget | None = None,
) -> Known:
    """Returns what is public of owners' records.

    Args:
        xs: each owner's records.
        ys: their labels.
        schema: as `PrivateClassifier` takes it.
        target: likewise.
        numbers: whether a number is learnt.
        counted: what noisy counts may cost, of which a schema is made instead of the records.

    Raises:
        ArgumentError: owners have other columns, or the schema is none.
    """
    columns = names_of(xs[0])
    for x in xs[1:]:
        _check_columns(columns, names_of(x))
    if isinstance(schema, Schema | str | Path) and schema != FROM_DATA:
        read = schema if isinstance(schema, Schema) else read_schema(Path(schema))
        _check_task(read, numbers=numbers)
        return Known(columns, _as_given(read.target.classes, ys), read)
    labels = () if numbers else tuple(_as_given(None, ys) if target is None else target)
    if schema is None:
        if numbers:
            advice = f"Give public ranges, or {FROM_DATA!r}, read from records."
            raise ArgumentError("schema", None, "to learn a number", advice, code="missing")
        return Known(columns, labels, None)
    read_off = isinstance(schema, str)
    of_target = numbers and target is None
    if of_target and not read_off:
        raise ArgumentError("target", None, "with {schema}", code="missing")
    every = np.concatenate([np.asarray(y) for y in ys])
    entries = (
        _read_off(_pooled(xs, columns), every if of_target else None, counted)
        if read_off
        else _entries(columns, schema)
    )
    if of_target:
        target = entries.pop(TARGET)["range"]
    learnt: dict[str, Any] = {"classes": [label_of(each) for each in labels]}
    if numbers:
        learnt = {"range": [*map(float, target or ())], "outside": "clip"}
    told = read_off and counted is None
    said = {"target": {"column": TARGET, **learnt}, "columns": entries}
    return Known(columns, labels, Schema.of({"basis": "data" if told else "public", **said}))


def _read_off(table: Table, y: Any, counted: SchemaBudget | None) -> dict[str, Any]:
    """Returns a schema's entries by column, and the range of `y` as one more, if it is given."""
    if counted is None:
        warn(READ_OFF, PrivacyWarning, stacklevel=5)
        found = {each.name: each.entry() for each in drafted(table)[0]}
        return (
            found if y is None else {**found, TARGET: {"range": [float(y.min()), float(y.max())]}}
        )
    found = counted.entries(table if y is None else {**table, TARGET: _cells(y)})
    if y is not None and TARGET not in found:
        raise ArgumentError("target", None, "because noise hides its classes", code="missing")
    return found


def frame_of(x: Given) -> nw.DataFrame[Any] | None:
    """Returns records as narwhals has frames; None if they are no frame."""
    frame = nw.from_native(x, eager_only=True, pass_through=True)
    return frame if isinstance(frame, nw.DataFrame) else None


def rows_at(x: Given, places: npt.NDArray[np.int64]) -> Given:
    """Returns some of the records."""
    frame = frame_of(x)
    return np.asarray(x)[places] if frame is None else frame[places.tolist(), :]


def table_of(x: Given) -> Table | None:
    """Returns the cells of a frame by the names of its columns; None if it is no frame."""
    if (frame := frame_of(x)) is None:
        return None
    each = zip(frame.columns, frame.iter_columns(), strict=True)
    return {str(name): _cells(column.to_list()) for name, column in each}


def array_of(x: Given, *, cells: bool = False) -> Raw:
    """Returns records as an array of numbers, images or texts; or of whatever `cells` hold.

    Raises:
        TypeError: they are sparse.
        ValueError: they are none of these, or not finite.
    """
    if cells:
        held: Raw = check_array(x, dtype=None, ensure_all_finite=False, ensure_min_samples=0)
        return held
    given = x if hasattr(x, "toarray") else np.asarray(x)
    texts = given.ndim == 1 and given.dtype.kind in "OU"
    try:
        array: Raw = check_array(
            given,
            dtype=None if texts else "numeric",
            ensure_2d=not texts,
            allow_nd=True,
            ensure_min_samples=0,
        )
    except ValueError as error:
        if given.ndim != 2 or not any(isinstance(each, str) for each in given.ravel()):
            raise
        hint = "It says what each column holds."
        rule = "with texts among the columns"
        raise ArgumentError("schema", None, rule, hint, code="missing") from error
    if texts:
        array = array.astype(object)
    if kind_of(array) is None:
        allowed = "numbers of shape (records, columns), images, or texts"
        raise ArgumentError("X", f"{array.dtype} {array.shape}", allowed, code="shape")
    return array


def names_of(x: Given) -> tuple[str, ...]:
    """Returns the names of a table's columns, ``x0`` and so on for an array; else nothing."""
    if (frame := frame_of(x)) is not None:
        return tuple(map(str, frame.columns))
    shape = x.shape if hasattr(x, "shape") else np.asarray(x).shape
    return tuple(f"x{i}" for i in range(shape[1])) if len(shape) == 2 else ()


def _check_columns(expected: tuple[str, ...], given: tuple[str, ...]) -> None:
    missing = [name for name in expected if name not in given]
    if missing or len(given) != len(expected):
        others = missing or [name for name in given if name not in expected]
        what = f"{len(given)} columns, {'without' if missing else 'with'} {others[0]!r}"
        raise ArgumentError(
            "records", what, f"the {len(expected)} columns of the others", code="data"
        )


def _check_task(schema: Schema, *, numbers: bool) -> None:
    schema.check_confirmed()
    task = "regression" if numbers else "classification"
    if schema.task != task:
        raise ArgumentError("schema", f"of a {schema.task}", f"of a {task}")


def _as_given(classes: Sequence[str] | None, ys: Sequence[npt.ArrayLike]) -> tuple[Any, ...]:
    """Returns classes as labels have them, numbers as numbers; None: all distinct ones."""
    by_name = {label_of(each): each for y in ys for each in np.asarray(y).tolist()}
    names = class_names([*by_name]) if classes is None else classes
    return tuple(by_name.get(name, name) for name in names)


def _entries(columns: tuple[str, ...], schema: Any) -> dict[str, Any]:
    """Returns a schema's entries by column, of pairs of numbers, lists of names, or tables."""
    if not isinstance(schema, Mapping):
        schema = dict(zip(columns, schema, strict=False)) if len(schema) == len(columns) else {}
    if missing := [name for name in columns if name not in schema]:
        rule = "with a range or a list of categories for each column"
        raise ArgumentError("schema", f"without {missing[0]!r}", rule)
    found = {}
    for name in columns:
        entry = schema[name]
        if isinstance(entry, Mapping):
            found[name] = dict(entry)
        elif all(isinstance(each, int | float) for each in entry) and len(entry) == 2:
            found[name] = {"range": [*map(float, entry)], "outside": "clip"}
        else:
            found[name] = {"categories": [*map(str, entry)], "outside": "other"}
    return found


def _table(x: Given, columns: tuple[str, ...]) -> Table:
    """Returns the cells of a frame or an array of these columns, by name."""
    table = table_of(x)
    if table is None:
        array = array_of(x, cells=True)
        _check_columns(columns, names_of(array))
        return {name: _cells(array[:, i]) for i, name in enumerate(columns)}
    _check_columns(columns, tuple(table))
    return table


def _pooled(xs: Sequence[Given], columns: tuple[str, ...]) -> Table:
    tables = [_table(x, columns) for x in xs]
    return {name: np.concatenate([table[name] for table in tables]) for name in columns}


def _cells(values: Any) -> npt.NDArray[np.object_]:
    listed = values.tolist() if isinstance(values, np.ndarray) else list(values)
    cells = np.empty(len(listed), dtype=object)
    cells[:] = listed
    return cells
