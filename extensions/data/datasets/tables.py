"""A table of one's own: a .csv or .parquet file with a column of labels."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from extensions.checks import check_left_out
from extensions.data.datasets.csv_file import likely_separator, read_csv
from extensions.data.datasets.parquet_file import read_parquet
from extensions.data.datasets.records import Labels, Raw, unreadable, unusable
from extensions.data.schema.cells import (
    PANDAS_INDEX,
    Cells,
    Separator,
    Table,
    label_of,
    names_in,
    number_of,
)
from extensions.data.schema.columns import numbers_in, reject_missing
from extensions.data.schema.encoding import Encoded
from extensions.errors import ArgumentError

SUFFIXES = (".csv", ".parquet")
MOST_CLASSES = 100
"""Most different numbers that are taken for classes where nobody names them."""
DRAFTED = "Say what the column holds in a schema (`pea schema` drafts one)."
NO_INDEX = (
    "If pandas or R wrote its index there, write the table without it (index=False, "
    "row.names=FALSE). Else give the column a name, or leave it out of the file."
)


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Which columns are what.

    Attributes:
        label: column of a table's labels.
        text: column of its texts, if records are texts; else all other columns are numbers.
    """

    label: str | None = None
    text: str | None = None

    def check(self, *, tables: bool, schema: bool, names: Sequence[str] | None = None) -> None:
        """Checks that what is said of columns can be true."""
        if schema or not tables:
            rule = "with {schema}, which says it" if tables else "except for a table"
            check_left_out(rule, label=self.label, text=self.text, class_names=names)


def is_table(path: Path) -> bool:
    """Whether the name of the file is that of a table, in letters of either case."""
    return path.suffix.lower() in SUFFIXES


def is_named_as_records(path: Path) -> bool:
    """Whether the name of the file is that of records: of a table, or of arrays."""
    return path.suffix.lower() in (*SUFFIXES, ".npz")


def separator_of(path: Path) -> Separator:
    """Returns what seems to separate the cells of a table; a comma if it is no .csv file."""
    return likely_separator(_existing(path)) if path.suffix.lower() == ".csv" else ","


def read_cells(path: Path, separator: Separator = ",") -> dict[str, Cells]:
    """Returns the values of each column of a .csv (UTF-8) or .parquet file, as written there."""
    parquet = _existing(path).suffix.lower() == ".parquet"
    names, columns = read_parquet(path) if parquet else read_csv(path, separator)
    for place, name in enumerate(names, start=1):
        given = f"{path.name}, column {place}"
        if not name.strip():
            raise unusable(given, "a column with a name", NO_INDEX)
        if name in names[: place - 1]:
            raise unusable(f"{given}, {name}", "the only column of that name")
    if not columns or not len(columns[0]):
        raise unreadable(str(path), "a file with at least one record")
    return {
        name: np.fromiter(values, object, len(values))
        for name, values in zip(names, columns, strict=True)
    }


def read_plain(
    paths: Sequence[Path], columns: Columns, names: Sequence[str] | None
) -> tuple[dict[Path, Encoded], tuple[str, ...], tuple[str, ...]]:
    """Returns records and labels of tables without a schema, and the names of columns and classes.

    The first table's order is that of the columns. Without `names` all distinct labels are classes.
    """
    order: tuple[str, ...] = () if columns.text is None else (columns.text,)
    labels, x = {}, {}
    for path in paths:
        table = read_cells(path)
        labels[path] = labels_in(path, table, columns)
        if columns.text is None:
            own = tuple(name for name in table if name != columns.label)
            order = order or own
            check_columns(path, own, order)
        texts = columns.text is not None
        x[path] = features_in(path, table, order, texts=texts, advice=DRAFTED)
    every = [label for own in labels.values() for label in own]
    known = class_names(every) if names is None else tuple(map(label_of, names))
    encoded = {}
    for path in paths:
        with naming(path):
            y = class_numbers(labels[path], known, columns.label)
        encoded[path] = Encoded(x=x[path], y=y)
    return encoded, order, known


def check_columns(path: Path, own: Sequence[str], order: Sequence[str]) -> None:
    """Checks that these columns of a table can be learnt from, and are those of the others."""
    if not own:
        raise unreadable(str(path), "a file with columns beside that of labels")
    for name in filter(PANDAS_INDEX.fullmatch, own):
        raise unusable(f"{path.name}, column {name}", "named by you", NO_INDEX)
    for name in sorted(set(own) ^ set(order)):
        given = f"{path.name}, which {'has' if name in own else 'lacks'} column {name}"
        raise unusable(given, "a table of the same columns as the others")


def labels_in(path: Path, table: Table, columns: Columns) -> list[str]:
    """Returns each record's label in the one way that it is written (`label_of`)."""
    for option, name in (("label", columns.label), ("text", columns.text)):
        if name not in table and not (option == "text" and name is None):
            allowed = f"a column of {path.name}: {names_in(table)}"
            raise ArgumentError(option, name, allowed, code="choice")
    if columns.text == columns.label:
        others = [name for name in table if name != columns.label]
        allowed = f"a column other than that of the labels: {names_in(others)}"
        raise ArgumentError("text", columns.text, allowed)
    assert columns.label is not None
    with naming(path):
        return [label_of(label) for label in _present(columns.label, table[columns.label])]


def features_in(
    path: Path,
    table: Table,
    names: Sequence[str],
    *,
    texts: bool,
    advice: str = "The model has no schema for other values.",
) -> Raw:
    """Returns the numbers of a table's columns, or the texts of one, found by their names."""
    for name in names:
        if name not in table:
            allowed = f"a table with the column {name!r}, from which the model learnt"
            raise unusable(f"{path.name}, with columns {names_in(table)}", allowed)
    with naming(path):
        if texts:
            return np.array([str(text) for text in _present(names[0], table[names[0]])], object)
        columns = [numbers_in(name, table[name], ".", advice=advice) for name in names]
        return np.stack(columns, axis=1)


def ids_in(path: Path, table: Table, name: str) -> list[str]:
    """Returns the values of a table's column as they are written, as `features_in`; "" for none."""
    if name not in table:
        raise ArgumentError(
            "id", name, f"a column of {path.name}: {names_in(table)}", code="choice"
        )
    if any(type(cell) is object for cell in table[name]):
        raise ArgumentError("id", name, "a column of texts, numbers, dates or times")
    return ["" if cell is None else str(cell) for cell in table[name]]


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Context manager that adds the file's name to errors about its records."""
    try:
        yield
    except ArgumentError as error:
        if error.argument not in ("records", "labels"):
            raise
        given = f"{path.name}, {error.value}"
        advice = error.hint
        raise ArgumentError(error.argument, given, error.rule, advice, code=error.code) from None


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise unreadable(str(path), "an existing file")
    return path


def class_names(labels: Sequence[str]) -> tuple[str, ...]:
    """Returns the distinct labels: numbers by size, anything else by alphabet.

    Raises ArgumentError if they are measurements: not whole, or more than `MOST_CLASSES` numbers.
    """
    names = sorted(set(labels))
    numbers = [number_of(name) for name in names]
    if any(map(math.isnan, numbers)):
        return tuple(names)
    if len(names) > MOST_CLASSES or not all(map(float.is_integer, numbers)):
        allowed = f"a column of classes: texts, or at most {MOST_CLASSES} whole numbers"
        advice = "To learn a number, give {schema} (`pea schema` drafts one) and {loss=squared}."
        raise ArgumentError("label", f"a column of {len(names)} different numbers", allowed, advice)
    return tuple(sorted(names, key=number_of))


def class_numbers(labels: Sequence[str], names: Sequence[str], column: str | None) -> Labels:
    """Returns each label's place among the names; an error names a record, and never its label."""
    places = {name: place for place, name in enumerate(names)}
    for row, label in enumerate(labels, start=1):
        if label not in places:
            given = f"record {row}, column {column}"
            raise ArgumentError("labels", given, f"one of {names_in(names)}", code="data")
    return np.array([places[label] for label in labels], dtype=np.int64)


def _present(name: str, cells: Cells) -> Cells:
    reject_missing(name, cells, f"{DRAFTED} Or drop the record.")
    return cells
