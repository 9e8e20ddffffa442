"""Values of a table as they stand in a file: which are missing, and which are the same."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

MISSING = ("", "na", "n/a", "nan", "null", "none", "?")

Cells = npt.NDArray[np.object_]
Table = Mapping[str, Cells]
"""The values of each column, by its name."""


def is_missing(value: Any) -> bool:
    """Whether a value says that there is none."""
    if isinstance(value, float):
        return math.isnan(value)
    return value is None or (isinstance(value, str) and value.strip().lower() in MISSING)


def number_of(value: Any) -> float:
    """Returns a value as a number; NaN if it is no finite one."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan
    return number if math.isfinite(number) else math.nan


def label_of(value: Any) -> str:
    """Returns the one text of a class or category: ``0``, ``0.0`` and ``00`` are all ``0``."""
    text = str(value).strip()
    number = number_of(text)
    if math.isnan(number):
        return text
    return str(int(number)) if number.is_integer() else repr(number)
