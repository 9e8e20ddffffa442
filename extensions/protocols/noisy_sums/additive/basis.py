"""What is opened of a column's residuals: public integer matrices, and how far one record moves it.

A record with residuals r in bins b_1 .. b_F adds to the opened vector r times

    phi = (a_0, T_1 e_b1, ..., T_F e_bF),        |phi|^2 <= S^2 = a_0^2 + sum_f max_b |T_f e_b|^2,

for each output, so that it moves it by at most |r| S <= C S, there or not there, and by at most
2 C S if it is another. All of it is integers: a_0 and T_f have `MATRIX_BITS` fractional bits, and
S^2 is computed of these; residuals over C are rounded toward zero with
`extensions.protocols.noisy_sums.second_moment.FRAC_BITS`. Sums are not rounded.

Matrices of bins in order are cosines, whose row k is k^-p cos(pi k (b + 1/2) / B): smooth shapes
are opened with little noise, and rough ones with more. Of other bins they are I - 11^T / B.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from extensions.protocols.noisy_sums.additive.bins import Bins
from extensions.protocols.noisy_sums.second_moment import FRAC_BITS
from extensions.ring.fixed_point import Integers, Reals

MATRIX_BITS = 12
OPENED_BITS = FRAC_BITS + MATRIX_BITS
INTERCEPT = round(0.7 * 2**MATRIX_BITS)
"""a_0: the weight of the residuals' total, which is opened once for all columns."""
_EXACT = 2.0**40
"""Matrices are rounded to a part of this first, as cosines may be an ulp apart on two machines."""
SMOOTH, SMOOTHER = 1, 2
"""p, of counted bins and of even ones."""


@dataclass(frozen=True)
class Basis:
    """The matrix of one column.

    Attributes:
        matrix: T, integers with `MATRIX_BITS` fractional bits, (rows, bins).
        prior: variance that each row's coefficient has before anything is opened, (rows,), over
            that of the column's shape.
    """

    matrix: Integers
    prior: Reals

    @property
    def reals(self) -> Reals:
        """T in real numbers."""
        return self.matrix / 2.0**MATRIX_BITS

    @property
    def reach(self) -> int:
        """The greatest squared norm of a column, 2 `MATRIX_BITS` fractional bits."""
        return int((self.matrix * self.matrix).sum(axis=0).max())


def basis_of(bins: Bins, power: int = SMOOTH) -> Basis:
    """Returns the matrix for a column's bins."""
    size, ordered = bins.size, bins.ordered
    if ordered <= 2:
        return Basis(_integers(np.eye(size) - 1.0 / size), np.ones(size))
    rows = np.arange(1.0, ordered)[:, None]
    waves: Reals = rows ** -float(power) * np.cos(
        np.pi * rows * (np.arange(ordered) + 0.5) / ordered
    )
    waves /= math.sqrt((waves * waves).sum(axis=0).max())
    prior: Reals = rows[:, 0] ** (2.0 * power - 2.0)
    prior /= (prior * (waves * waves).mean(axis=1)).sum()
    if size == ordered:
        return Basis(_integers(waves), prior)
    missing: Reals = np.append(np.full(ordered, -1.0 / ordered), 1.0)[None]
    matrix = np.concatenate([np.pad(waves, ((0, 0), (0, 1))), missing])
    matrix /= math.sqrt((matrix * matrix).sum(axis=0).max())
    return Basis(_integers(matrix), np.append(prior, 1.0))


def sensitivity(bases: Sequence[Basis]) -> float:
    """Returns S: how far a residual of norm 1 moves all that is opened of one record at most."""
    squares = INTERCEPT**2 + sum(each.reach for each in bases)
    return math.sqrt(squares) / float(1 << MATRIX_BITS)


def bounds(columns: int) -> tuple[float, float]:
    """Returns the least and the most that `sensitivity` is of so many columns."""
    return INTERCEPT / 2**MATRIX_BITS, math.sqrt(1.0 + columns)


def _integers(matrix: Reals) -> Integers:
    """Returns a matrix toward zero: no column becomes longer."""
    found: Integers = np.trunc(np.round(matrix * _EXACT) / _EXACT * 2**MATRIX_BITS).astype(np.int64)
    return found
