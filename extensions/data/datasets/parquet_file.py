"""A Parquet file: values as text, numbers or neither, which no column is learnt from."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from extensions.data.datasets.records import unreadable, unusable
from extensions.errors import optional

_PLAIN = (
    *("null", "boolean", "integer", "float64", "decimal"),
    *("string", "large_string", "string_view"),
    *("binary", "large_binary", "fixed_size_binary", "binary_view"),
)
"""Types whose values Python has as they are: `pyarrow.types.is_*`."""
_NEITHER = object()
"""Stands for a value that is neither text nor a number."""


def read_parquet(path: Path) -> tuple[list[str], list[Sequence[Any]]]:
    """Returns the names of the columns, and the values of each.

    Bytes are decoded as UTF-8. Dates and times become text; a time with a zone is then in UTC.
    Floats of 16 or 32 bits stay so, because as text they have the digits of a CSV file. Lists,
    structures and durations become objects that no column may have from which a model learns.
    """
    pyarrow = optional("pyarrow", "pyarrow", "parquet")
    parquet = optional("pyarrow.parquet", "pyarrow", "parquet")
    try:
        with parquet.ParquetFile(path) as file:
            table = file.read()
            names = table.column_names
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise unreadable(str(path), "an undamaged Parquet file") from error
    columns = []
    for name, column in zip(names, table.columns, strict=True):
        try:
            columns.append(_values(pyarrow, column))
        except (pyarrow.ArrowException, UnicodeDecodeError):
            given = f"{path.name}, column {name}"
            allowed = "of values that Python has too: text in UTF-8, numbers, dates and times"
            raise unusable(given, allowed) from None
    return names, columns


def _values(pyarrow: Any, column: Any) -> Sequence[Any]:
    kind, types = column.type, pyarrow.types
    if types.is_dictionary(kind):
        return _values(pyarrow, column.cast(kind.value_type))
    if types.is_timestamp(kind):
        # Without a zone, times of one with a zone are in UTC, and need no list of zones.
        texts = column.cast(pyarrow.timestamp(kind.unit)).cast(pyarrow.string()).to_pylist()
        zone = "" if kind.tz is None else "Z"
        return [None if text is None else text + zone for text in texts]
    if types.is_date(kind) or types.is_time(kind):
        return list(column.cast(pyarrow.string()).to_pylist())
    if types.is_float16(kind) or types.is_float32(kind):
        return list(column.to_numpy())
    if not any(getattr(types, f"is_{plain}")(kind) for plain in _PLAIN):
        return [_NEITHER] * len(column)
    return [each.decode() if isinstance(each, bytes) else each for each in column.to_pylist()]
