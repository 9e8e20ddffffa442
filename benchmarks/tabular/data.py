"""The five tables, each with the schema that is publicly known of it."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn import datasets

from benchmarks.tabular import made
from extensions.data.schema import Cells, Number, Schema, Table, Target

STANDARD_DEVIATIONS = 2.0
_ENDS = re.compile(r"^[A-Za-z][^:\n]*:\s+([\d.]+)\s+([\d.]+)(?:\s+[\d.]+)*$", re.MULTILINE)


@dataclass(frozen=True)
class Tabular:
    """A table and what is public of it.

    Attributes:
        name: of the table.
        table: its values.
        schema: where ranges come from is said where they are made.
    """

    name: str
    table: Table
    schema: Schema

    @property
    def records(self) -> int:
        """Number of records."""
        return len(self.table[self.schema.target.column])


def breast_cancer() -> Tabular:
    """Returns scikit-learn's table, with the ranges that its description prints."""
    found = datasets.load_breast_cancer()
    return _described("breast cancer", found, found.target, ("malignant", "benign"))


def wine() -> Tabular:
    """Returns scikit-learn's table, class 0 or not, with the ranges of its description."""
    found = datasets.load_wine()
    return _described("wine, class 0", found, (found.target == 0).astype(np.int64), ("no", "yes"))


def diabetes() -> Tabular:
    """Returns scikit-learn's table, its target above the median.

    Its description says that each column has mean 0 and sum of squares 1.
    """
    found = datasets.load_diabetes()
    end = STANDARD_DEVIATIONS / np.sqrt(len(found.target))
    above = (found.target > np.median(found.target)).astype(np.int64)
    return _of(
        "diabetes", found, above, ("below", "above"), [(-end, end)] * len(found.feature_names)
    )


def loans() -> Tabular:
    """Returns the first made table, whose schema was written with it."""
    return Tabular("loans (made)", made.loans(), made.LOANS_SCHEMA)


def visits() -> Tabular:
    """Returns the second made table, whose schema was written with it."""
    return Tabular("visits (made)", made.visits(), made.VISITS_SCHEMA)


TABLES: tuple[Callable[[], Tabular], ...] = (breast_cancer, wine, diabetes, loans, visits)


def _described(
    name: str, found: Any, classes: npt.NDArray[np.int64], names: tuple[str, str]
) -> Tabular:
    ends = [(float(low), float(high)) for low, high in _ENDS.findall(found.DESCR)]
    assert len(ends) == len(found.feature_names), name
    return _of(name, found, classes, names, ends)


def _of(
    name: str,
    found: Any,
    classes: npt.NDArray[np.int64],
    names: tuple[str, str],
    ends: list[tuple[float, float]],
) -> Tabular:
    columns = tuple(
        Number(name=str(column), low=low, high=high, outside="clip")
        for column, (low, high) in zip(found.feature_names, ends, strict=True)
    )
    table: dict[str, Cells] = {
        column.name: found.data[:, place].astype(object) for place, column in enumerate(columns)
    }
    table["class"] = np.array(names, dtype=object)[classes]
    schema = Schema(basis="public", target=Target(column="class", classes=names), columns=columns)
    return Tabular(name, table, schema)
