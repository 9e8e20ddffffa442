"""Exact Gram matrices of bounded rows, and how far one record moves them.

X^T X of rows x_i of norm at most 1, as the vector of its upper triangle with entries off the
diagonal times sqrt(2), is a sum of vectors of norm |x_i|^2 <= 1. So a record that is there or not
moves it by at most 1, attained by every row of norm 1; one that is another by at most sqrt(2), as
products of two such vectors, (x . y)^2, are never negative; and k records of one person by at most
k, or sqrt(2) k. Noise of deviation sigma on the diagonal and sigma / sqrt(2) off it is noise of
sigma on that vector.

All of it is integers, rounding included: rows are encoded toward zero with `FRAC_BITS` fractional
bits f, |X|^2 <= 4^f is checked in integers, and no sum is rounded. Products of two entries are at
most 4^f = 2^36, so that sums over 2^17 rows, in whatever order, are exact in double precision, and
sums over 2^26 rows stay below 2^62.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from extensions.errors import ArgumentError
from extensions.privacy.sampling import row_blocks
from extensions.protocols.noise import EVEN, NoiseSplit, noise_without
from extensions.ring.fixed_point import Integers, Reals
from extensions.ring.integer_matmul import EXACT_BITS
from extensions.rules import Whole

FRAC_BITS = 18
"""Of a row's entries; a Gram matrix has twice as many."""
MAX_ROWS = 1 << 26
"""Of all owners together."""
MAX_COLUMNS = 4096

_AT_ONCE = 1 << (EXACT_BITS - 2 * FRAC_BITS)
"""Rows over which sums are exact in double precision."""
_BLOCK = 1 << 22
"""Entries that are in memory as real numbers beside the matrix."""
_ROOM = 1.0 - 2.0**-40
"""Keeps a row that is shortened within the bound whatever floating point does."""


def check_size(rows: int, columns: int) -> None:
    """Checks that a Gram matrix of all owners' rows is exact and of a size that can be opened."""
    advice = "Take features of fewer columns."
    Whole(0, MAX_COLUMNS, f"at most {MAX_COLUMNS}").check("columns", columns, advice)
    allowed = f"at most {MAX_ROWS} of all parties together"
    Whole(0, MAX_ROWS, allowed).check("records", rows)


def unit_rows(rows: Integers | Reals, bound: float) -> Integers:
    """Returns rows over a bound of their norm, with `FRAC_BITS` fractional bits, toward zero.

    A row that rounding has made longer than the bound is shortened to it. Rows of zeros stay so.

    Args:
        rows: numbers of any scale, all finite, (rows, columns).
        bound: of the norm of a row, in the same scale.

    Guarantees:
        Each row is a function of itself alone, and the sum of its squares is at most 4^FRAC_BITS.
    """
    encoded = np.empty(rows.shape, dtype=np.int64)
    for block in blocks(rows.shape):
        reals = rows[block].astype(np.float64)
        longest = np.maximum(np.sqrt((reals * reals).sum(axis=1)), bound)
        reals *= (2.0**FRAC_BITS * _ROOM / longest)[:, None]
        encoded[block] = np.trunc(reals)
    check_unit_rows(encoded)
    return encoded


def check_unit_rows(rows: Integers) -> None:
    """Checks that the squares of each row add up to 4^FRAC_BITS at most."""
    limit = 1 << FRAC_BITS
    for block in blocks(rows.shape):
        part = rows[block]
        if (np.abs(part) > limit).any() or ((part * part).sum(axis=1) > limit * limit).any():
            raise ArgumentError("rows", "a row of norm above 1", "of norm at most 1")


def second_moment(rows: Integers) -> Integers:
    """Returns X^T X exactly, (columns, columns), with 2 FRAC_BITS fractional bits, of `unit_rows`.

    It takes the memory of two matrices of the result's size, and 32 MB.
    """
    columns = rows.shape[1]
    total = np.zeros((columns, columns), dtype=np.int64)
    for block in blocks(rows.shape):
        part = rows[block].astype(np.float64)
        total += (part.T @ part).astype(np.int64)
    return total


def sigmas(sigma: float) -> tuple[float, float]:
    """Returns the deviations of noise on and off the diagonal, of noise sigma on the vector."""
    return sigma, sigma / math.sqrt(2)


def noise_norm(sigma: float, columns: int, *, parties: int, split: NoiseSplit = EVEN) -> float:
    """Returns the spectral norm of all parties' noise on a Gram matrix, sqrt(2 m v columns) sigma.

    A symmetric matrix whose entries off the diagonal have the deviation s has, for many columns,
    the norm 2 s sqrt(columns); here s is sqrt(m v / 2) sigma.

    Args:
        sigma: of noise on the vector that remains after colluding parties subtract theirs.
        parties: number m of them, each of which adds the variance v sigma^2.
        split: how they divide it, from which v follows (`extensions.protocols.noise`).
    """
    widened = noise_without(parties, 0, split)
    return widened * sigma * math.sqrt(2.0 * columns)


def pack(matrix: Integers) -> list[Integers]:
    """Returns diagonal and upper triangle of a symmetric matrix, row after row."""
    upper = [row[place + 1 :] for place, row in enumerate(matrix)]
    return [matrix.diagonal().copy(), np.concatenate(upper)]


def unpack(parts: Sequence[Integers]) -> Reals:
    """Returns the symmetric matrix of which `pack` returned these integers, as real numbers."""
    diagonal, upper = (np.ldexp(part.astype(np.float64), -2 * FRAC_BITS) for part in parts)
    columns, start = len(diagonal), 0
    matrix = np.empty((columns, columns))
    for place in range(columns):
        end = start + columns - 1 - place
        matrix[place, place] = diagonal[place]
        matrix[place, place + 1 :] = matrix[place + 1 :, place] = upper[start:end]
        start = end
    return matrix


def blocks(shape: tuple[int, ...]) -> Iterator[slice]:
    """Returns rows in turn, so few that their sums are exact and they take little memory."""
    return row_blocks(shape, min(_BLOCK, _AT_ONCE * max(1, shape[1])))
