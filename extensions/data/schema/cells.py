"""Values of a table as they stand in a file: which are missing, and which are the same."""

import math
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from numbers import Real
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from extensions.ring.fixed_point import Reals

Separator = Literal[",", ";", "\t", "|"]
SEPARATORS: tuple[Separator, ...] = get_args(Separator)
Mark = Literal[".", ","]
"""A decimal mark."""

SPELLED = ("na", "n/a", "n.a.", "#n/a", "<na>", "nan", "null", "none", "?", ".", "-")
"""How files often spell a missing value, in small letters; only a schema can say that one does."""

_FLOATS = (float, np.floating)
_NUMBERS = (Real, Decimal)
_READABLE = (str, *_NUMBERS)
_LISTED = 20
"""Most names that an error lists."""
PANDAS_INDEX = re.compile(r"Unnamed: [0-9]+|__index_level_[0-9]+__")
"""How pandas names an index that has no name, once it was written and read."""

Cells = npt.NDArray[np.object_]
Table = Mapping[str, Cells]
"""The values of each column, by its name."""

_NUMBER = re.compile(r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?")
_IN_NUMBERS = re.compile(r"[0-9+.eE \t-]*+")
_DIGITS = re.compile(r"([+-]?)(?=\.?[0-9])0*+([0-9]*+)(?:\.([0-9]*+))?")
_TO_POINTS = str.maketrans(",.", ".,")
_ROUNDED = re.compile(r"[+-]?[0-9](?:\.[0-9]*)?[eE]\+[0-9]+")


def names_in(names: Iterable[str]) -> str:
    """Returns names for an error: all, or the first ones and how many there are."""
    first, *rest = names
    return ", ".join((first, *rest[: _LISTED - 1])) + (
        f", ... ({len(rest) + 1} in all)" if len(rest) >= _LISTED else ""
    )


def is_missing(value: Any) -> bool:
    """Whether there is no value: None, NaN of a binary file, or a cell of nothing but spaces."""
    if isinstance(value, str):
        return not value.strip()
    return value is None or (isinstance(value, _FLOATS) and math.isnan(value))


def is_readable(value: Any) -> bool:
    """Whether a value is text or a number, from which something can be learnt."""
    return isinstance(value, _READABLE)


def is_spelled_missing(value: Any) -> bool:
    """Whether a text may spell that a value is missing."""
    return isinstance(value, str) and value.strip().lower() in SPELLED


def number_of(value: Any, mark: Mark = ".") -> float:
    """Returns a value as a number; NaN if it is no finite one.

    A text is a number in ASCII: sign, digits, one decimal mark and exponent, spaces around it.
    """
    if isinstance(value, str):
        text = _pointed(value, mark)
        number = float(text) if _NUMBER.fullmatch(text) else math.nan
    elif isinstance(value, _NUMBERS):
        try:
            # The digits that a text has: 0.1 of 32 bits is 0.1, and not 0.10000000149.
            number = float(str(value) if isinstance(value, np.floating) else value)
        except OverflowError:
            return math.nan
    else:
        return math.nan
    return number if math.isfinite(number) else math.nan


def numbers_of(cells: Cells, mark: Mark = ".") -> Reals:
    """Returns `number_of` of each value, (records,)."""
    try:
        if mark == "." and _IN_NUMBERS.fullmatch("".join(cells)):
            numbers = cells.astype(np.float64)  # of such texts Python takes the same for numbers
            return np.where(np.isfinite(numbers), numbers, math.nan)
    except (TypeError, ValueError):
        pass
    return np.array([number_of(each, mark) for each in cells], dtype=np.float64)


def label_of(value: Any, mark: Mark = ".") -> str:
    """Returns the one text of a class or category: ``0``, ``0.0`` and ``00`` are all ``0``.

    Only zeros that say nothing are taken away, so ``1e1``, ``1_0`` and ``10`` are three. Numbers
    that differ in any digit are two classes, however long they are.
    """
    text, parts = _parts(value, mark)
    if parts is None:
        return text
    sign, whole, rest = parts
    digits = f"{whole}{mark}{rest}" if rest else whole
    return f"-{digits}" if sign == "-" and digits != "0" else digits


def identity_of(value: Any, mark: Mark = ".") -> str:
    """Returns the one text of who a record is about, as it is written but for spaces around it.

    A whole number is itself however it is written in digits: ``7``, ``007`` and ``7.0`` are one
    person, for tools add zeros and take them away; ``1e3`` and ``1_000`` are texts. No digit is
    rounded: whole numbers that differ in any are two persons.
    """
    text, parts = _parts(value, mark)
    return text if parts is None or parts[2] else label_of(value, mark)


def is_rounded(value: Any, mark: Mark = ".") -> bool:
    """Whether a value may stand for several whole numbers: large, and once a float.

    Such are floats from 2^53 on (of 32 bits from 2^24 on), and texts as spreadsheets write long
    numbers, ``1.10101E+17``.
    """
    if isinstance(value, _FLOATS):
        return bool(abs(float(value)) >= 2.0 ** (np.finfo(type(value)).nmant + 1))
    return _ROUNDED.fullmatch(_pointed(str(value), mark)) is not None


def _parts(value: Any, mark: Mark) -> tuple[str, tuple[str, str, str] | None]:
    """Returns the text of a value; and sign, whole part and rest of a number in plain digits."""
    if isinstance(value, _FLOATS):
        value = Decimal(str(value))
    text = format(value, "f") if isinstance(value, Decimal) else str(value).strip()
    found = _DIGITS.fullmatch(_pointed(text, mark) if isinstance(value, str) else text)
    if found is None:
        return text, None
    sign, whole, rest = found.groups("")
    return text, (sign, whole or "0", rest.rstrip("0"))


def _pointed(text: str, mark: Mark) -> str:
    """Returns a text with a point for its decimal mark; what has a point already is no number."""
    text = text.strip()
    return text if mark == "." else text.translate(_TO_POINTS)
