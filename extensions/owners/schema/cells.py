"""Values of a table as they stand in a file: which are missing, and which are the same."""

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

MISSING = ("", "na", "n/a", "nan", "null", "none", "?")

Cells = npt.NDArray[np.object_]
Table = Mapping[str, Cells]
"""The values of each column, by its name."""

_WHOLE = re.compile(r"([+-]?)0*(0|[1-9][0-9]*)(?:\.0*)?")
_ROUNDED = re.compile(r"[+-]?[0-9](?:\.[0-9]*)?[eE]\+[0-9]+")


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
    """Returns the one text of a class or category: ``0``, ``0.0`` and ``00`` are all ``0``.

    Guarantees:
        Whole numbers that differ in any digit are two classes, however large they are.
    """
    text = str(value).strip()
    if (whole := _whole(text)) is not None:
        return whole
    number = number_of(text)
    if math.isnan(number):
        return text
    return str(int(number)) if number.is_integer() else repr(number)


def identity_of(value: Any) -> str:
    """Returns the one text of who a record is about, as it is written but for spaces around it.

    A whole number is itself however it is written in digits: ``7``, ``007`` and ``7.0`` are one
    person, for tools add zeros and take them away; ``1e3`` and ``1_000`` are texts.

    Guarantees:
        No digit is rounded: whole numbers that differ in any are two persons.
    """
    text = str(value).strip()
    return _whole(text) or text


def is_rounded(value: Any) -> bool:
    """Whether a value may stand for several whole numbers: large, and once a float.

    Such are floats from 2^53 on, and texts as spreadsheets write long numbers, ``1.10101E+17``.
    """
    if isinstance(value, float) and abs(value) >= 2.0**53:
        return True
    return _ROUNDED.fullmatch(str(value).strip()) is not None


def _whole(text: str) -> str | None:
    """Returns the digits of a whole number, without zeros to be left out; None of other texts."""
    found = _WHOLE.fullmatch(text)
    if found is None:
        return None
    sign, digits = found.groups()
    return f"-{digits}" if sign == "-" and digits != "0" else digits
