"""A table of one's own: a .csv or .parquet file with a column of labels."""

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from extensions.errors import ArgumentError, MissingExtraError
from extensions.owners.data.records import Labels, Raw
from extensions.owners.schema import Cells, Table, is_missing, label_of

SUFFIXES = (".csv", ".parquet")
MOST_CLASSES = 100
"""Most different numbers that are taken for classes where nobody names them."""


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
                raise ArgumentError(name, value, "left out, except for a table")
            if value is not None and schema:
                raise ArgumentError(name, value, "left out with a schema, which says it")


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


def read_cells(path: Path) -> dict[str, Cells]:
    """Returns the values of each column, as written in the file.

    Args:
        path: .csv (comma-separated, UTF-8, names of the columns in its first row) or .parquet.

    Raises:
        ArgumentError: no such file, or one that is no table.
        MissingExtraError: a .parquet file, and pyarrow is not installed.
    """
    if not path.is_file():
        raise ArgumentError("records", str(path), "an existing file")
    return _read_parquet(path) if path.suffix.lower() == ".parquet" else _read_csv(path)


def read_table(path: Path, columns: Columns) -> TableRecords:
    """Returns the records and their labels.

    Args:
        path: as in `read_cells`.
        columns: which of them are what.

    Raises:
        ArgumentError: as `read_cells`; no such column, one for two things; a missing value or one
            that is no number, with its row (records count from 1) and column.
        MissingExtraError: as `read_cells`.
    """
    table = read_cells(path)
    for option, name in (("label", columns.label), ("text", columns.text)):
        if name not in table and not (option == "text" and name is None):
            raise ArgumentError(option, name, f"a column of {path.name}: {', '.join(table)}")
    if columns.text == columns.label:
        others = [name for name in table if name != columns.label]
        allowed = f"a column other than that of the labels: {', '.join(others)}"
        raise ArgumentError("text", columns.text, allowed)
    assert columns.label is not None
    labels = [label_of(label) for label in _present(path, columns.label, table.pop(columns.label))]
    if not labels:
        raise ArgumentError("records", str(path), "a file with at least one record")
    if columns.text is not None:
        texts = _present(path, columns.text, table[columns.text])
        return TableRecords(x=np.array([str(text) for text in texts], dtype=object), labels=labels)
    if not table:
        raise ArgumentError("records", str(path), "a file with columns beside that of labels")
    x = np.stack([_numbers(path, *column) for column in table.items()], axis=1)
    return TableRecords(x=x, labels=labels, columns=tuple(table))


def read_features(path: Path, names: Sequence[str]) -> Raw:
    """Returns the numbers of a table's columns, found by their names, without labels.

    Raises:
        ArgumentError: as `read_cells`; no such column, or a value that is missing or no number.
        MissingExtraError: as `read_cells`.
    """
    table = read_cells(path)
    return np.stack([_numbers(path, name, _column(path, table, name)) for name in names], axis=1)


def read_texts(path: Path, name: str) -> Raw:
    """Returns the texts of a table's column, without labels.

    Raises:
        ArgumentError: as `read_cells`; no such column, or a missing text.
        MissingExtraError: as `read_cells`.
    """
    texts = _present(path, name, _column(path, read_cells(path), name))
    return np.array([str(text) for text in texts], dtype=object)


def _column(path: Path, table: Table, name: str) -> Cells:
    if name not in table:
        allowed = f"a table with the column {name!r}, from which the model learnt"
        raise ArgumentError("records", f"{path.name}, with columns {', '.join(table)}", allowed)
    if not len(table[name]):
        raise ArgumentError("records", str(path), "a file with at least one record")
    return table[name]


def in_order_of(own: TableRecords, columns: Sequence[str], path: Path) -> TableRecords:
    """Returns the records with their columns in another order, each found by its name.

    Raises:
        ArgumentError: they have other columns; one of them is named.
    """
    for name in sorted(set(own.columns) ^ set(columns)):
        given = f"{path.name}, which {'has' if name in own.columns else 'lacks'} column {name}"
        raise ArgumentError("records", given, "tables of one width and the same columns")
    places = [own.columns.index(name) for name in columns]
    return TableRecords(x=own.x[:, places], labels=own.labels, columns=tuple(columns))


def class_names(labels: Sequence[str]) -> tuple[str, ...]:
    """Returns the distinct labels: numbers by size, anything else by alphabet.

    Raises:
        ArgumentError: they are measurements rather than classes: numbers that are not whole, or
            more than `MOST_CLASSES` of them.
    """
    names = sorted(set(labels))
    try:
        numbers = sorted(names, key=float)
    except ValueError:
        return tuple(names)
    if len(numbers) > MOST_CLASSES or not all(float(name).is_integer() for name in numbers):
        raise ArgumentError(
            "label",
            f"a column of {len(numbers)} different numbers",
            f"one of classes: texts, or at most {MOST_CLASSES} whole numbers",
            "To learn a number give --schema (`pea schema` drafts one) and --loss squared.",
        )
    return tuple(numbers)


def class_numbers(labels: Sequence[str], names: Sequence[str]) -> Labels:
    """Returns each label's place among the names.

    Raises:
        ArgumentError: a label that is none of them.
    """
    places = {label_of(name): place for place, name in enumerate(names)}
    for row, label in enumerate(labels, start=1):
        if label not in places:
            raise ArgumentError(
                "labels", label, f"one of {', '.join(names)}", f"Look at record {row}."
            )
    return np.array([places[label] for label in labels], dtype=np.int64)


def _read_csv(path: Path) -> dict[str, Cells]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        try:
            names, *rows = csv.reader(file)
        except (ValueError, csv.Error) as error:
            allowed = "a CSV file in UTF-8 with the names of its columns in the first row"
            raise ArgumentError("records", str(path), allowed, f"{error}.") from error
    if len(set(names)) != len(names):
        raise ArgumentError("records", str(path), "a file with one name for each column")
    for number, row in enumerate(rows, start=1):
        if len(row) != len(names):
            raise ArgumentError(
                "records",
                f"{path.name}, record {number}, which has {len(row)} values",
                f"as many values as columns, {len(names)}",
            )
    cells = np.array(rows, dtype=object).reshape(len(rows), len(names))
    return {name: cells[:, i] for i, name in enumerate(names)}


def _read_parquet(path: Path) -> dict[str, Cells]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise MissingExtraError("pyarrow", "parquet") from None
    try:
        table = parquet.read_table(path)
    except (ArrowException, OSError) as error:
        raise ArgumentError("records", str(path), "an undamaged Parquet file") from error
    columns = {name: table[name].to_pylist() for name in table.column_names}
    # A list is the value of one cell, and no further axis.
    return {name: np.fromiter(values, object, len(values)) for name, values in columns.items()}


def _present(path: Path, name: str, cells: Cells) -> Cells:
    for row, value in enumerate(cells, start=1):
        if is_missing(value):
            raise _missing(path, row, name)
    return cells


def _numbers(path: Path, name: str, cells: Cells) -> npt.NDArray[np.float64]:
    try:
        numbers = cells.astype(np.float64)
        if np.isfinite(numbers).all():
            return numbers
    except (TypeError, ValueError):
        pass
    for row, value in enumerate(cells, start=1):
        if is_missing(value):
            raise _missing(path, row, name)
        try:
            finite = math.isfinite(float(value))
        except (TypeError, ValueError):
            finite = False
        if not finite:
            raise ArgumentError(
                "records",
                f"{path.name}, record {row}, column {name}",
                "a finite number",
                "Say what the column holds in a --schema (`pea schema` drafts one).",
            )
    raise AssertionError(name)


def _missing(path: Path, row: int, name: str) -> ArgumentError:
    return ArgumentError(
        "records",
        f"{path.name}, record {row}, column {name}",
        "there: it is missing",
        "Say what stands for it in a --schema (`pea schema` drafts one), or drop the record.",
    )
