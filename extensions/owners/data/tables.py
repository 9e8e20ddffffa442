"""A table of one's own: a .csv or .parquet file with a column of labels."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from extensions.errors import ArgumentError
from extensions.owners.data.csv_file import likely_separator, read_csv
from extensions.owners.data.parquet_file import read_parquet
from extensions.owners.data.records import Labels, Raw, unreadable, unusable
from extensions.owners.schema import (
    PANDAS_INDEX,
    Cells,
    Separator,
    Table,
    label_of,
    listed,
    number_of,
    numbers_in,
    refuse_missing,
)

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
        """Returns only if what is said of columns can be true.

        Args:
            tables: whether some file is a table.
            schema: whether a schema says what its columns are.
            names: of classes, if they are given.

        Raises:
            ArgumentError: columns or classes are named where there is no table, or a schema.
        """
        for name, value in (
            ("label", self.label),
            ("text", self.text),
            ("class_names", names),
        ):
            if value is not None and not tables:
                raise ArgumentError(name, value, "except for a table", code="conflict")
            if value is not None and schema:
                raise ArgumentError(name, value, "with {schema}, which says it", code="conflict")


def is_table(path: Path) -> bool:
    """Whether the name of the file is that of a table, in letters of either case."""
    return path.suffix.lower() in SUFFIXES


def is_named_as_records(path: Path) -> bool:
    """Whether the name of the file is that of records: of a table, or of arrays."""
    return path.suffix.lower() in (*SUFFIXES, ".npz")


@dataclass(frozen=True, kw_only=True)
class TableRecords:
    """One owner's records as its table says them.

    Attributes:
        x: numbers (records, columns), or texts (records,).
        labels: of each record, written in one way (`extensions.owners.schema.label_of`).
        columns: names of the numbers, in order; empty for texts.
    """

    x: Raw
    labels: list[str]
    columns: tuple[str, ...] = ()


def separator_of(path: Path) -> Separator:
    """Returns what seems to separate the cells of a table; a comma if it is no .csv file.

    Raises:
        ArgumentError: a .csv file that is not there, empty or not UTF-8.
    """
    return likely_separator(_existing(path)) if path.suffix.lower() == ".csv" else ","


def read_cells(path: Path, separator: Separator = ",") -> dict[str, Cells]:
    """Returns the values of each column, as written in the file.

    Args:
        path: .csv (UTF-8, names of the columns in its first row) or .parquet.
        separator: of the cells of a .csv file.

    Raises:
        ArgumentError: no such file, one that is not well-formed (`read_csv`, `read_parquet`), a
            column without a name or with that of another one, or no records.
        MissingExtraError: a .parquet file, and pyarrow is not installed.
    """
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


def read_table(path: Path, columns: Columns) -> TableRecords:
    """Returns the records and their labels.

    Args:
        path: as in `read_cells`.
        columns: which of them are what.

    Raises:
        ArgumentError: as `read_cells`; no such column, one for two things, or the index of
            pandas; a missing value or one that is no number, with its row (records count from 1)
            and column.
        MissingExtraError: as `read_cells`.
    """
    table = read_cells(path)
    for option, name in (("label", columns.label), ("text", columns.text)):
        if name not in table and not (option == "text" and name is None):
            allowed = f"a column of {path.name}: {listed(table)}"
            raise ArgumentError(option, name, allowed, code="choice")
    if columns.text == columns.label:
        others = [name for name in table if name != columns.label]
        allowed = f"a column other than that of the labels: {listed(others)}"
        raise ArgumentError("text", columns.text, allowed)
    assert columns.label is not None
    with naming(path):
        labels = [label_of(label) for label in _present(columns.label, table.pop(columns.label))]
        if columns.text is not None:
            return TableRecords(x=_texts(columns.text, table[columns.text]), labels=labels)
    if not table:
        raise unreadable(str(path), "a file with columns beside that of labels")
    for name in filter(PANDAS_INDEX.fullmatch, table):
        raise unusable(f"{path.name}, column {name}", "named by you", NO_INDEX)
    x = _numbers(path, table, tuple(table), DRAFTED)
    return TableRecords(x=x, labels=labels, columns=tuple(table))


def features_in(path: Path, table: Table, names: Sequence[str]) -> Raw:
    """Returns the numbers of a table's columns, found by their names, without labels.

    Args:
        path: of the table.
        table: as `read_cells` reads it.
        names: of the columns.

    Raises:
        ArgumentError: no such column, or a value that is missing or no number.
    """
    return _numbers(path, table, names, "The model has no schema for other values.")


def texts_in(path: Path, table: Table, name: str) -> Raw:
    """Returns the texts of a table's column, without labels; as `features_in`.

    Raises:
        ArgumentError: no such column, or a missing text.
    """
    cells = _column(path, table, name)
    with naming(path):
        return _texts(name, cells)


def ids_in(path: Path, table: Table, name: str) -> list[str]:
    """Returns the values of a table's column as they are written, as `features_in`; "" for none.

    Raises:
        ArgumentError: no such column, or one of values that have no text.
    """
    if name not in table:
        raise ArgumentError("id", name, f"a column of {path.name}: {listed(table)}", code="choice")
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


def _column(path: Path, table: Table, name: str) -> Cells:
    if name not in table:
        allowed = f"a table with the column {name!r}, from which the model learnt"
        raise unusable(f"{path.name}, with columns {listed(table)}", allowed)
    return table[name]


def in_order_of(own: TableRecords, columns: Sequence[str], path: Path) -> TableRecords:
    """Returns the records with their columns in another order, each found by its name.

    Raises:
        ArgumentError: they have other columns; one of them is named.
    """
    for name in sorted(set(own.columns) ^ set(columns)):
        given = f"{path.name}, which {'has' if name in own.columns else 'lacks'} column {name}"
        raise unusable(given, "a table of the same columns as the others")
    places = [own.columns.index(name) for name in columns]
    return TableRecords(x=own.x[:, places], labels=own.labels, columns=tuple(columns))


def class_names(labels: Sequence[str]) -> tuple[str, ...]:
    """Returns the distinct labels: numbers by size, anything else by alphabet.

    Raises:
        ArgumentError: they are measurements rather than classes: numbers that are not whole, or
            more than `MOST_CLASSES` of them.
    """
    names = sorted(set(labels))
    numbers = [number_of(name) for name in names]
    if any(map(math.isnan, numbers)):
        return tuple(names)
    if len(names) > MOST_CLASSES or not all(map(float.is_integer, numbers)):
        allowed = f"one of classes: texts, or at most {MOST_CLASSES} whole numbers"
        advice = "To learn a number give {schema} (`pea schema` drafts one) and {loss=squared}."
        raise ArgumentError("label", f"a column of {len(names)} different numbers", allowed, advice)
    return tuple(sorted(names, key=number_of))


def class_numbers(labels: Sequence[str], names: Sequence[str], column: str) -> Labels:
    """Returns each label's place among the names.

    Args:
        labels: of the records.
        names: of the classes.
        column: of the labels.

    Raises:
        ArgumentError: a label that is none of them; its record is named, and never it.
    """
    places = {label_of(name): place for place, name in enumerate(names)}
    for row, label in enumerate(labels, start=1):
        if label not in places:
            given = f"record {row}, column {column}"
            raise ArgumentError("labels", given, f"one of {listed(names)}", code="data")
    return np.array([places[label] for label in labels], dtype=np.int64)


def _present(name: str, cells: Cells) -> Cells:
    refuse_missing(name, cells, f"{DRAFTED} Or drop the record.")
    return cells


def _texts(name: str, cells: Cells) -> Raw:
    return np.array([str(text) for text in _present(name, cells)], dtype=object)


def _numbers(path: Path, table: Table, names: Sequence[str], advice: str) -> Raw:
    columns = [_column(path, table, name) for name in names]
    with naming(path):
        return np.stack(
            [
                numbers_in(name, cells, ".", advice=advice)
                for name, cells in zip(names, columns, strict=True)
            ],
            axis=1,
        )
