"""A first schema from an owner's own table, for the owner to replace what records gave away."""

import math

import numpy as np

from extensions.errors import ArgumentError
from extensions.owners.schema.cells import Cells, Table, is_missing, label_of, number_of
from extensions.owners.schema.columns import Category, Column, Missing, Number
from extensions.owners.schema.document import to_toml
from extensions.owners.schema.schema import Schema, Target, Unit

MOST = 0.02
"""The part of the numbers at either end that a draft's range leaves outside, to be clipped."""
FEW = 20
"""Most different texts that a column of categories has in a draft, and numbers of a target that
is taken for one of classes."""

NOTICE = (
    "this schema is a draft made of records: its ranges and categories tell of them, and are not "
    'yet public. State each from what is publicly known, then write basis = "public"; a run '
    "refuses a draft."
)

_TO_CONFIRM = ("range = ", "categories = ", "classes = ", "rows = ")

_HEAD = """\
# The public schema of a table: all parties need the same file, and see what it says.
#
# DRAFT: every range and category below was made of records, and tells of them. Replace each by what
# is publicly known (what can such a value be, between which bounds do most lie), not by what the
# records hold; then write basis = "public". A run refuses a draft. basis = "data" lets it be used
# as it is: all parties then see what the records gave away here, which epsilon does not cover.
#
# range: mapped to -1..1; outside = "clip" takes its nearer end for a value beyond it (so it may be
#   where most values lie), "refuse" stops. scale = "log" suits values of which ratios matter.
# missing = "indicator" takes the middle for a missing value and learns from its absence; "refuse"
#   stops. Columns that are not named here are left out.
# unit: the column that names a person, of whom at most so many rows count; epsilon is a person's.
# weights = [0.1, 1] beside classes lets the records of a frequent class count less.
"""


def drafted(table: Table, target: str, unit: str | None = None) -> str:
    """Returns the file of `draft`, with what its owner has to do."""
    lines = to_toml(draft(table, target, unit)).splitlines()
    marked = [f"{line}  # confirm" if line.startswith(_TO_CONFIRM) else line for line in lines]
    return "\n".join([_HEAD + marked[0], *marked[1:]]) + "\n"


def draft(table: Table, target: str, unit: str | None = None) -> Schema:
    """Returns a schema that an owner's table fits, with the basis "draft".

    Ranges hold all but `MOST` of a column's numbers at either end, and all of a target's, rounded
    outward to two digits at most; texts are categories, in alphabetical order. A target of at most
    `FEW` different whole numbers or texts has classes, any other a range.

    Args:
        table: of one owner.
        target: column that is to be learnt.
        unit: column that names the person, or None.

    Raises:
        ArgumentError: no such column, one without values or with one value, or one of more than
            `FEW` texts.
    """
    for option, name in (("target", target), ("unit", unit)):
        if name is not None and name not in table:
            raise ArgumentError(option, name, f"a column of the file: {', '.join(table)}")
    return Schema(
        target=_target(target, table[target]),
        columns=tuple(
            _column(name, cells) for name, cells in table.items() if name not in (target, unit)
        ),
        unit=None if unit is None else Unit(column=unit, rows=1),
    )


def rounded_outward(low: float, high: float) -> tuple[float, float]:
    """Returns a range around another, of multiples of half a power of ten near its size."""
    size = max(high - low, 1e-9 * max(abs(low), abs(high)), 1e-300)
    exponent = math.floor(math.log10(size))
    step = 10.0**exponent / 2
    ends = math.floor(low / step) * step, math.ceil(high / step) * step
    if ends[0] == ends[1]:
        ends = ends[0] - step, ends[1] + step
    return float(f"{ends[0]:.12g}"), float(f"{ends[1]:.12g}")


def _column(name: str, cells: Cells) -> Column:
    present = [each for each in cells if not is_missing(each)]
    missing: Missing = "indicator" if len(present) < len(cells) else "refuse"
    numbers = [number_of(each) for each in present]
    if not present:
        raise ArgumentError("records", f"column {name}", "a column with at least one value")
    if not any(math.isnan(each) for each in numbers):
        low, high = rounded_outward(*np.quantile(numbers, (MOST, 1 - MOST)).tolist())
        return Number(name=name, low=low, high=high, outside="clip", missing=missing)
    categories = sorted({label_of(each) for each in present})
    if not 2 <= len(categories) <= FEW:
        raise ArgumentError(
            "records",
            f"column {name}, which has {len(categories)} different texts",
            f"numbers, or 2..{FEW} categories",
            "Leave the column out of the file, or name it with --unit if it names the person.",
        )
    return Category(name=name, categories=tuple(categories), outside="clip", missing=missing)


def _target(name: str, cells: Cells) -> Target:
    present = [each for each in cells if not is_missing(each)]
    labels = {label_of(each) for each in present}
    numbers = {label: number_of(label) for label in labels}
    whole = all(number.is_integer() for number in numbers.values())
    if any(math.isnan(number) for number in numbers.values()):
        classes = sorted(labels)
    else:
        classes = sorted(labels, key=lambda label: numbers[label])
        if not whole or len(labels) > FEW:
            ends = rounded_outward(min(numbers.values()), max(numbers.values()))
            return Target(column=name, range=ends, outside="clip")
    if not 2 <= len(classes) <= FEW:
        given = f"column {name}, which has {len(classes)} different texts"
        raise ArgumentError("target", given, f"numbers, or 2..{FEW} classes")
    return Target(column=name, classes=tuple(classes))
