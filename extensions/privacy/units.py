"""Records of one person, which are drawn together, so that epsilon is the person's."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from extensions.errors import ArgumentError
from extensions.privacy.sampling import OwnRecords


def check_units(units: npt.NDArray[np.int64], records: int, rows_per_unit: int) -> None:
    """Checks that no person has more than k records; `units` has a person's number for each."""
    if units.shape != (records,):
        raise ArgumentError("units", units.shape, f"({records},), one a record", code="shape")
    most = np.unique(units, return_counts=True)[1].max()
    if most > rows_per_unit:
        allowed = f"one with at most {{rows_per_unit={rows_per_unit}}}"
        advice = "Leave further ones out."
        raise ArgumentError("units", f"a person with {most} records", allowed, advice, code="data")


def by_unit(records: OwnRecords, units: npt.NDArray[np.int64], rows_per_unit: int) -> OwnRecords:
    """Returns the records with those of each person together, in as many rows for everybody.

    How many records a person has is secret then; how many persons there are is public.

    Args:
        units: a number for each person, the same in all of its records, (records,).

    Guarantees:
        Features and labels of a row without a record are zero, and `empty` is 1 there.
    """
    check_units(units, len(records.features), rows_per_unit)
    _, person, counts = np.unique(units, return_inverse=True, return_counts=True)
    order = np.argsort(person, kind="stable")
    first = np.cumsum(counts) - counts
    places = np.empty(len(order), dtype=np.int64)
    places[order] = person[order] * rows_per_unit + np.arange(len(order)) - first[person[order]]
    rows = len(counts) * rows_per_unit
    features = np.zeros((rows, records.features.shape[1]), dtype=np.int64)
    labels = np.zeros((rows, records.labels.shape[1]), dtype=np.int64)
    empty = np.ones(rows, dtype=np.int64)
    features[places], labels[places], empty[places] = records.features, records.labels, 0
    return replace(
        records, features=features, labels=labels, rows_per_unit=rows_per_unit, empty=empty
    )
