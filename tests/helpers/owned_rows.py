"""Rows of three owners, of several lengths, as ring integers that any process can be sent."""

import numpy as np


def owned_rows(columns: int) -> list[list[list[int]]]:
    """Returns 5, 1 and 8 rows of norm 1 at most, with 20 fractional bits."""
    draws = np.random.default_rng(columns)
    owners = []
    for count in (5, 1, 8):
        x = draws.normal(size=(count, columns))
        x /= np.linalg.norm(x, axis=1, keepdims=True) * draws.uniform(1.0, 3.0, (count, 1))
        owners.append(np.fix(x * 2.0**20).astype(np.int64).tolist())
    return owners
