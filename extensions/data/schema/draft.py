"""A first schema from an owner's own table, for the owner to replace what records gave away."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from extensions.data.schema.cells import (
    PANDAS_INDEX,
    Cells,
    Mark,
    Separator,
    Table,
    is_missing,
    is_readable,
    is_spelled_missing,
    label_of,
    names_in,
    number_of,
)
from extensions.data.schema.columns import (
    Category,
    Column,
    Missing,
    Number,
    OutsideNames,
    Scale,
    bent,
)
from extensions.data.schema.schema import Schema, Target, Unit, to_toml, toml_value
from extensions.errors import ArgumentError
from extensions.ring.fixed_point import Reals

MOST = 0.02
"""The part of the numbers at either end that a draft's range leaves outside, to be clipped."""
FEW = 20
"""Most different values of a target that is taken for one of classes."""
MOST_CATEGORIES = 1000
"""Most categories that a draft lists; others, which are rarer, are "other"."""
HEAVY = 5.0
"""How many times as long as that of the middle half a range is, from which on tails are heavy."""

NOTICE = (
    "this schema is a draft: its ranges and categories come from your records and reveal some of "
    'them. Replace each by what is publicly known, then write basis = "public". A run rejects a '
    "draft."
)

_TO_CONFIRM = (
    *("range = ", "categories = ", "classes = ", "rows = "),
    *("separator = ", "decimal = ", "scale = ", "missing_values = "),
)

_HEAD = """\
# The public schema of a table. All parties need the same file and can read it.
#
# DRAFT: the ranges and categories below come from your records and reveal some
# of them. Replace each by what is publicly known: which values are possible, or
# between which bounds most of them lie. Then write basis = "public", because a
# run rejects a draft. Or write basis = "data", if all parties may see what your
# records gave away here: epsilon does not cover it.
#
# separator and decimal: of CSV files, if they are not a comma and a point.
# range: mapped to -1..1. outside = "clip" moves a value beyond it to the nearer
#   end (so it may be where most values lie), "refuse" stops.
#   scale = "log" suits values whose ratios matter; "log1p" also takes 0 and
#   values below it.
# categories: outside = "other" makes one more category for all others, "clip"
#   takes zeros for them.
# missing = "indicator" takes the middle for a missing value and lets the model
#   learn from its absence; "refuse" stops. Missing are empty cells and what
#   missing_values lists.
# Columns that are not named here are left out.
# unit: the column that names a person, and how many rows of each person count;
#   epsilon then protects a person.
# weights = [0.1, 1] beside classes lets the records of a frequent class count
#   less.
"""

_TIME = r"(?:[T ].*)?"
_DATE = re.compile(
    rf"[0-9]{{4}}([-/.])[0-9]{{1,2}}\1[0-9]{{1,2}}{_TIME}"
    rf"|[0-9]{{1,2}}([-/.])[0-9]{{1,2}}\2(?:[0-9]{{4}}|[0-9]{{2}}){_TIME}"
    r"|[0-9]{4}[-/](?:0[1-9]|1[0-2])|(?:0?[1-9]|1[0-2])[-/][0-9]{4}"
    r"|(?:19|20)[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])"
    r"|[0-9]{1,2}[. -]{1,2}[^\W\d_]{3,9}\.?[ -][0-9]{2,4}|[^\W\d_]{3,9}\.? [0-9]{1,2},? [0-9]{4}"
    r"|[0-9]{1,2}[^\W\d_]{3}[0-9]{4}(?::.*)?|[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}.*)?(?: ?[AP]M)?",
    re.IGNORECASE,
)
_NAMED = re.compile(
    r"(?:.*[^a-z])?(?:p?id|ids|key|uuid|guid|nr|no|ssn|mrn)|id[^a-z].*|index|.*(?:nummer|number)",
    re.IGNORECASE,
)
_NAMED_BY_CASE = re.compile(r".*[a-z](?:Id|ID|Key|Nr|No)")
_LONG = re.compile(r"[0-9]{10,}")
_CODE = re.compile(r"0[0-9]+|True|False")
"""What is a category although it is a number: postal codes, truth values of a Parquet file."""
_THOUSANDS = re.compile(r"[1-9][0-9]{0,2}(?:,[0-9]{3})+")
_MARKED = re.compile(r"[<>=~\s]*[€$£¥]?\s?[+-]?[0-9]+(?:[.,'\s][0-9]+)*\s?[%€$£¥]?")
"""A number that is written with a sign, a unit or marks of thousands."""


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A schema that nobody has looked at; `left_out` says why a column is not in it, by name."""

    schema: Schema
    left_out: Mapping[str, str]

    @property
    def text(self) -> str:
        """The file of the schema, with what its owner has to do."""
        lines = to_toml(self.schema).removesuffix("\n").split("\n")
        marked = [f"{line}  # confirm" if line.startswith(_TO_CONFIRM) else line for line in lines]
        left_out = [
            f"# Left out: {toml_value(name)}, {why}." for name, why in self.left_out.items()
        ]
        return "\n".join([_HEAD + marked[0], *marked[1:], "", *left_out]).rstrip() + "\n"


def draft(
    table: Table,
    target: str,
    unit: str | None = None,
    *,
    exclude: Sequence[str] = (),
    separator: Separator = ",",
) -> Draft:
    """Returns a schema that an owner's table fits, with the basis "draft".

    Ranges hold all but `MOST` of a column's numbers at either end, and all of a target's, rounded
    outward to two digits at most; tails that are heavy have a logarithmic scale. Texts are
    categories, in alphabetical order, the `MOST_CATEGORIES` most frequent ones. A target of at most
    `FEW` different whole numbers or texts has classes, any other a range.

    Left out are dates, identifiers and free text, and columns with one text or none.
    """
    for option, name in (("target", target), ("unit", unit), *(("exclude", x) for x in exclude)):
        if name is not None and name not in table:
            allowed = f"a column of the file: {names_in(table)}"
            raise ArgumentError(option, name, allowed, code="choice")
    if unit == target:
        raise ArgumentError("unit", unit, "a column other than the target")
    for name in exclude:
        if name in (target, unit):
            raise ArgumentError("exclude", name, "a column other than target and unit")
    mark = _mark_of(table)
    others = {name: cells for name, cells in table.items() if name not in (target, unit, *exclude)}
    columns, unfit = drafted(others, mark)
    left_out = dict.fromkeys(exclude, "as you say") | unfit
    if not columns:
        given = names_in(f"{name}: {why}" for name, why in left_out.items())
        allowed = "a file with other columns than the target to learn from"
        raise ArgumentError("from", given, allowed, code="file")
    schema = Schema(
        separator=separator,
        decimal=mark,
        target=_target(target, table[target], mark),
        columns=columns,
        unit=None if unit is None else Unit(column=unit, rows=1),
    )
    return Draft(schema=schema, left_out=left_out)


def drafted(table: Table, mark: Mark = ".") -> tuple[tuple[Column, ...], dict[str, str]]:
    """Returns what columns hold, as `draft` says, and why others are left out, by name."""
    left_out, columns = {}, []
    for name, cells in table.items():
        present = [each for each in cells if not is_missing(each)]
        if (why := _unfit(name, present, mark)) is not None:
            left_out[name] = why
        else:
            columns.append(_column(name, present, mark, missing=len(present) < len(cells)))
    return tuple(columns), left_out


def rounded_outward(low: float, high: float) -> tuple[float, float]:
    """Returns a range around another, of multiples of half a power of ten near its size."""
    size = max(high - low, 1e-9 * max(abs(low), abs(high)), 1e-300)
    exponent = math.floor(math.log10(size))
    step = 10.0**exponent / 2
    ends = math.floor(low / step) * step, math.ceil(high / step) * step
    if ends[0] == ends[1]:
        ends = ends[0] - step, ends[1] + step
    return float(f"{ends[0]:.12g}"), float(f"{ends[1]:.12g}")


def _mark_of(table: Table) -> Mark:
    """Returns the decimal mark with which more columns are numbers.

    Commas that may all be marks of thousands say nothing.
    """
    count = {".": 0, ",": 0}
    for cells in table.values():
        present = [each for each in cells if not is_missing(each)]
        marked = {each.strip() for each in present if isinstance(each, str) and "," in each}
        for mark in get_args(Mark):
            thousands = mark == "," and marked and all(map(_THOUSANDS.fullmatch, marked))
            count[mark] += not thousands and _numbers(present, mark) is not None
    return "," if count[","] > count["."] else "."


def _unfit(name: str, present: Sequence[Any], mark: Mark) -> str | None:
    """Returns why nothing should be learnt from a column, None if something can be."""
    if not present:
        return "without values"
    if PANDAS_INDEX.fullmatch(name):
        return "the index of pandas"
    if not all(map(is_readable, present)):
        return "neither text nor numbers"
    texts = [str(each).strip() for each in present if not is_spelled_missing(each)]
    if texts and all(map(_DATE.fullmatch, texts)):
        return "dates or times (an age or a duration can be learnt)"
    labels = [label_of(each, mark) for each in present]
    different = len(set(labels))
    many = different > min(FEW, max(5, len(present) / 2))
    if different == 1:
        return "one value only"
    if (numbers := _numbers(present, mark)) is None:
        others = any(math.isnan(number_of(each, mark)) for each in labels)
        marked = sum(_MARKED.fullmatch(each) is not None for each in set(labels))
        if many and others and marked > different / 2:
            return "numbers, but some with signs, texts or thousands marks"
        if different > max(5, len(present) / 2):
            return "mostly different texts: identifiers, or free text"
    elif all(map(float.is_integer, numbers)):
        if len(numbers) >= 5 and (np.diff(numbers) == 1).all():
            return "numbers that count the records"
        named = _NAMED.fullmatch(name) or _NAMED_BY_CASE.fullmatch(name)
        if named and many:
            return "identifiers, by its name"
        if different == len(present) and all(map(_LONG.fullmatch, texts)):
            return "identifiers: long numbers, all different"
    return None


def _numbers(present: Sequence[Any], mark: Mark) -> list[float] | None:
    """Returns the numbers of a column, None if it has other values, codes or none."""
    if any(_CODE.fullmatch(str(each).strip()) for each in present):
        return None
    numbers = [number_of(each, mark) for each in present if not is_spelled_missing(each)]
    return numbers if numbers and not any(map(math.isnan, numbers)) else None


def _column(name: str, present: Sequence[Any], mark: Mark, *, missing: bool) -> Column:
    absent: Missing = "indicator" if missing else "refuse"
    if (numbers := _numbers(present, mark)) is not None:
        spelled = {str(each).strip() for each in present if is_spelled_missing(each)}
        low, high, scale = _range(numbers)
        return Number(
            name=name,
            low=low,
            high=high,
            scale=scale,
            outside="clip",
            missing="indicator" if spelled else absent,
            missing_values=tuple(sorted(spelled)),
        )
    counts = Counter(label_of(each, mark) for each in present)
    names = [each for each, _ in counts.most_common(MOST_CATEGORIES)]
    outside: OutsideNames = "clip" if len(names) == len(counts) else "other"
    return Category(name=name, categories=tuple(sorted(names)), outside=outside, missing=absent)


def _range(numbers: Sequence[float]) -> tuple[float, float, Scale]:
    """Returns the ends of a column's range and its scale."""
    ends = np.quantile(numbers, (MOST, 0.25, 0.75, 1 - MOST))
    low, _, _, high = ends.tolist()
    scale: Scale = "log" if low > 0 else "log1p"
    wide = high >= 10 * low if low > 0 else max(-low, high) >= 10
    tails = _tails(ends)
    if not wide or tails <= HEAVY or _tails(bent(scale, ends)) > tails:
        return *rounded_outward(low, high), "linear"
    if scale == "log1p":
        return *rounded_outward(low, high), scale
    down, up = (10.0 ** math.floor(math.log10(end)) for end in (low, high))
    low, high = math.floor(low / down) * down, math.ceil(high / up) * up
    return float(f"{low:.12g}"), float(f"{high:.12g}"), scale


def _tails(ends: Reals) -> float:
    """Returns how many times as long as that of the middle half a range is."""
    low, quarter, three_quarters, high = ends.tolist()
    middle = three_quarters - quarter
    return float((high - low) / middle) if middle > 0 else math.inf


def _target(name: str, cells: Cells, mark: Mark) -> Target:
    present = [each for each in cells if not is_missing(each)]
    labels = {label_of(each, mark) for each in present if not is_spelled_missing(each)}
    if len(labels) < 2 or any(math.isnan(number_of(each, mark)) for each in labels):
        labels = {label_of(each, mark) for each in present}
    numbers = {label: number_of(label, mark) for label in labels}
    if any(math.isnan(number) for number in numbers.values()):
        classes = sorted(labels)
    else:
        classes = sorted(labels, key=lambda label: numbers[label])
        if len(labels) > FEW or not all(map(float.is_integer, numbers.values())):
            ends = rounded_outward(min(numbers.values()), max(numbers.values()))
            return Target(column=name, range=ends, outside="clip")
    if not 2 <= len(classes) <= FEW:
        given = f"column {name}, which has {len(classes)} different texts"
        raise ArgumentError("target", given, f"numbers, or 2..{FEW} classes")
    return Target(column=name, classes=tuple(classes))
