"""Rows of three owners, of several lengths, as ring integers that any process can be sent."""

from collections.abc import Iterable, Sequence

import numpy as np

from extensions.privacy.sampling import OwnRecords
from extensions.protocols.records import Records
from extensions.ring.fixed_point import Integers


def owned_rows(columns: int) -> list[list[list[int]]]:
    """Returns 5, 1 and 8 rows of norm 1 at most, with 20 fractional bits."""
    draws = np.random.default_rng(columns)
    owners = []
    for count in (5, 1, 8):
        x = draws.normal(size=(count, columns))
        x /= np.linalg.norm(x, axis=1, keepdims=True) * draws.uniform(1.0, 3.0, (count, 1))
        owners.append(np.fix(x * 2.0**20).astype(np.int64).tolist())
    return owners


def announced(own: Iterable[Integers], sizes: Sequence[int]) -> Records:
    """Returns rows of a host's ranks as records without labels, of owners with so many rows."""
    records = [
        OwnRecords(features=rows, labels=np.zeros((len(rows), 1), dtype=np.int64), frac_bits=20)
        for rows in own
    ]
    return Records(records, tuple(sizes), max(each.features.shape[1] for each in records))
