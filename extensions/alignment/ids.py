"""Ids of persons as all owners write them, and what an owner says of its list."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt

from extensions.alignment.curve import POINT
from extensions.data.schema.cells import is_spelled_missing
from extensions.errors import ArgumentError
from extensions.rules import Each, Whole, check_fields, one_of

IdFormat = Literal["text", "digits", "date"]
Points = npt.NDArray[np.bytes_]
"""Strings of `POINT` bytes, which NumPy compares as a whole."""
DTYPE = f"S{POINT}"
_JOINT, _STEP = "\x1f", 4
_NUMBER = re.compile(r"[+-]?(\d+\.\d*|\.\d+|\d+(?=e))(e[+-]?\d+)?")
_DATES = (
    re.compile(r"(?P<year>\d{4})([-/.]?)(?P<month>\d\d)\2(?P<day>\d\d)([ t]00:00(:00(\.0+)?)?)?"),
    re.compile(r"(?P<day>\d\d?)\.(?P<month>\d\d?)\.(?P<year>\d{4})"),
)


@dataclass(frozen=True)
class Outline:
    """How an owner's ids look, as it tells the others.

    Attributes:
        formats: of the columns that an id is made of.
        digits: share of ids that have digits only, 0 or 1, or 0.5 if some have.
        shortest: length of the shortest id, rounded down to a multiple of 4.
        longest: length of the longest one, rounded up; 0 of an empty list.
    """

    formats: list[IdFormat]
    digits: Annotated[float, one_of((0.0, 0.5, 1.0))]
    shortest: Annotated[int, Whole(0)]
    longest: Annotated[int, Whole(0)]

    def __post_init__(self) -> None:
        check_fields(self)
        Each(one_of(IdFormat)).check("formats", self.formats)

    def __str__(self) -> str:
        kind = {0.0: "no id of digits only", 0.5: "some ids of digits only", 1.0: "digits alone"}
        lengths = f"{self.shortest} to {self.longest} characters"
        return f"{' and '.join(self.formats)} of {lengths}, {kind[self.digits]}"

    def may_meet(self, other: Outline) -> bool:
        """Whether an id of this list can be one of the other."""
        fits = self.shortest <= other.longest and other.shortest <= self.longest
        fits &= abs(self.digits - other.digits) < 1
        return self.formats == other.formats and (fits or not (self.longest and other.longest))


@dataclass(frozen=True)
class Ids:
    """An owner's list.

    Attributes:
        digests: SHA-512 of each id, its first `POINT` bytes, in the order of the records.
    """

    digests: Points
    outline: Outline

    @property
    def digest(self) -> str:
        """SHA-256 of all ids, whatever their order, in hexadecimal digits."""
        return hashlib.sha256(np.sort(self.digests).tobytes()).hexdigest()


def ids_of(columns: Sequence[Sequence[str]], formats: Sequence[IdFormat]) -> Ids:
    """Returns the list of the persons in some columns, each row's values joined by U+001F.

    Text is compared without its case (NFKC, casefold) and without spaces around it.

    Args:
        columns: one or more, of equally many cells as they are written.
        formats: of each column.

    Raises:
        ArgumentError: a value is empty, or none of its format, or looks like a number that a
            program has rewritten (12345.0, 1e5); or a person has several rows. The error has
            numbers of rows, from 1, and no id.
    """
    digests = np.empty(len(columns[0]), DTYPE)
    lengths, numeric = set[int](), 0
    for row, cells in enumerate(zip(*columns, strict=True)):
        texts = [
            _normalised(each, form, row + 1) for each, form in zip(cells, formats, strict=True)
        ]
        joined = _JOINT.join(texts)
        lengths.add(len(joined))
        numeric += "".join(texts).isdecimal()
        digests[row] = hashlib.sha512(joined.encode()).digest()[:POINT]
    order = np.argsort(digests, kind="stable")
    ordered = digests[order]
    again = np.flatnonzero(ordered[1:] == ordered[:-1])
    if again.size:
        first, second = sorted(order[again[0] : again[0] + 2] + 1)
        others = np.unique(ordered[again]).size - 1
        given = f"records {first} and {second}"
        given += f", and those of {others} more ids," if others else ""
        advice = "Join a person's records first: counts and means of visits, for example."
        raise ArgumentError("id", given, "of different persons", advice, code="data")
    digits = 1.0 if numeric == len(digests) else 0.5 if numeric else 0.0
    shortest, longest = min(lengths, default=0), max(lengths, default=0)
    outline = Outline([*formats], digits, shortest // _STEP * _STEP, -(-longest // _STEP) * _STEP)
    return Ids(digests, outline)


def _normalised(cell: str, form: IdFormat, row: int) -> str:
    """Returns an id, or a part of one, as all owners write it."""
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", cell).casefold()).strip()
    if not text or is_spelled_missing(text):
        raise _refused(row, "not empty", "Fill it in, or leave the record out.")
    if _JOINT in text:
        raise _refused(row, "without the character U+001F")
    if form == "date":
        return _iso(text, row)
    if _NUMBER.fullmatch(text):
        advice = "A program has turned it into a number: export the column as text."
        raise _refused(row, "an id as it was issued, unlike 12345.0 or 1e5", advice)
    if form == "digits":
        text = "".join(str(unicodedata.decimal(each)) for each in text if each.isdecimal())
        if not text:
            raise _refused(row, "an id with digits")
    return text


def _iso(text: str, row: int) -> str:
    for pattern in _DATES:
        if found := pattern.fullmatch(text):
            try:
                return date(*(int(found[part]) for part in ("year", "month", "day"))).isoformat()
            except ValueError:
                break
    raise _refused(row, "a date such as 1970-12-31, 19701231 or 31.12.1970")


def _refused(row: int, rule: str, advice: str = "") -> ArgumentError:
    return ArgumentError("id", f"record {row}", rule, advice, code="data")
