"""A table of one's own: a .csv or .parquet file with a column of labels."""

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from extensions.errors import ArgumentError, MissingExtraError
from extensions.owners.data.records import Labels, Raw

MISSING = ("", "na", "n/a", "nan", "null", "none", "?")

SUFFIXES = (".csv", ".parquet")

Cells = npt.NDArray[np.object_]


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Which columns are what.

    Attributes:
        label: column of a table's labels.
        text: column of its texts, if records are texts; else all other columns are numbers.
    """

    label: str | None = None
    text: str | None = None


def is_table(path: Path) -> bool:
    """Whether the name of the file is that of a table."""
    return path.suffix in SUFFIXES


def read_table(path: Path, columns: Columns) -> tuple[Raw, list[str]]:
    """Returns the records and their labels, as written in the file.

    Args:
        path: .csv (comma-separated, UTF-8, names of the columns in its first row) or .parquet.
        columns: which of them are what.

    Raises:
        ArgumentError: no such file or column, a missing value or one that is no number, with its
            row (records count from 1) and column.
        MissingExtraError: a .parquet file, and pyarrow is not installed.
    """
    if not path.is_file():
        raise ArgumentError("records", str(path), "an existing file")
    table = _read_parquet(path) if path.suffix == ".parquet" else _read_csv(path)
    for option, name in (("label", columns.label), ("text", columns.text)):
        if name not in table and not (option == "text" and name is None):
            raise ArgumentError(option, name, f"a column of {path.name}: {', '.join(table)}")
    assert columns.label is not None
    labels = [str(label) for label in _present(path, columns.label, table.pop(columns.label))]
    if not labels:
        raise ArgumentError("records", str(path), "a file with at least one record")
    if columns.text is not None:
        texts = _present(path, columns.text, table[columns.text])
        return np.array([str(text) for text in texts], dtype=object), labels
    if not table:
        raise ArgumentError("records", str(path), "a file with columns beside that of labels")
    return np.stack([_numbers(path, *column) for column in table.items()], axis=1), labels


def class_names(labels: Sequence[str]) -> tuple[str, ...]:
    """Returns the distinct labels: numbers by size, anything else by alphabet."""
    names = sorted(set(labels))
    try:
        return tuple(sorted(names, key=float))
    except ValueError:
        return tuple(names)


def class_numbers(labels: Sequence[str], names: Sequence[str]) -> Labels:
    """Returns each label's place among the names.

    Raises:
        ArgumentError: a label that is none of them.
    """
    places = {name: place for place, name in enumerate(names)}
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
    return {name: np.array(table[name].to_pylist(), dtype=object) for name in table.column_names}


def _present(path: Path, name: str, cells: Cells) -> Cells:
    for row, value in enumerate(cells, start=1):
        if _is_missing(value):
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
        if _is_missing(value):
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
                "Write categories as numbers by a public rule, or leave the column out.",
            )
    raise AssertionError(name)


def _is_missing(value: Any) -> bool:
    if isinstance(value, float):
        return math.isnan(value)
    return value is None or (isinstance(value, str) and value.strip().lower() in MISSING)


def _missing(path: Path, row: int, name: str) -> ArgumentError:
    return ArgumentError(
        "records",
        f"{path.name}, record {row}, column {name}",
        "there: it is missing",
        "Fill it by a public rule, or drop the record.",
    )
