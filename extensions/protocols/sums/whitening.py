"""Whitening: a public linear map of features, from a noisy sum of what they are correlated like.

With S the sum of x x^T over all records' features x of norm at most 1, opened with noise, and V
diag(e) V^T its eigenvalues and vectors, an owner replaces x by x P / |x P|, where P = V diag((|e| +
ridge)^(-1/2)) V^T. That is a function of one record and of what was opened, so that it costs
nothing more; and the rows are bounded as before. Directions in which the features hardly vary count
as much as others then, and a linear model needs far fewer steps.

Each row must be a function of its own record alone, as for DPSGD: else a record moves S by more
than its own row, and no noise here accounts for that.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from extensions.protocols.host import Host
from extensions.protocols.noise import EVEN, NoiseSplit
from extensions.protocols.pea import Keep
from extensions.protocols.sums.gram import (
    FRAC_BITS,
    blocks,
    check_size,
    gram,
    noise_norm,
    pack,
    sigmas,
    unpack,
)
from extensions.protocols.sums.noisy_sum import noisy_sum
from extensions.ring.fixed_point import Integers, Reals
from extensions.rules import POSITIVE

WHITENING = "whitening"
"""Name of the release, and of the noise in ledgers, to which all parties contribute."""

SHORTEST = 1e-12
"""Length of a mapped row below which it is taken for one of zeros."""

_RIDGE = 0.7


@dataclass(frozen=True, kw_only=True)
class Whitening:
    """A public map of features.

    Attributes:
        parts: what was opened, integers with 2 FRAC_BITS fractional bits: diagonal (columns,) and
            upper triangle, row after row, (columns (columns - 1) / 2,).
        ridge: what is added to the absolute eigenvalues, positive.
    """

    parts: Sequence[Integers]
    ridge: float

    @property
    def digest(self) -> str:
        """SHA-256 of what was opened, in hexadecimal digits."""
        return hashlib.sha256(b"".join(part.tobytes() for part in self.parts)).hexdigest()

    @cached_property
    def matrix(self) -> Reals:
        """P over its largest eigenvalue, (columns, columns), symmetric.

        Machines may find it 2^-30 or so apart. That need not be equal: each owner maps its own
        records alone, and rounds them to the ring's fractional bits then.

        Cost:
            About 10 columns^3 floating-point operations, once.
        """
        eigenvalues, vectors = np.linalg.eigh(unpack(self.parts))
        spread = np.abs(eigenvalues) + self.ridge
        matrix: Reals = (vectors * np.sqrt(spread.min() / spread)) @ vectors.T
        return matrix

    def rows(self, x: Reals, norm: float = 1.0) -> Reals:
        """Returns norm times x P / |x P| for each row x, (rows, columns); zeros stay zeros.

        Args:
            x: features, (rows, columns), in any unit.
            norm: of the result's rows.
        """
        mapped = np.empty(x.shape)
        for block in blocks(x.shape):
            part = x[block] @ self.matrix
            lengths = np.sqrt((part * part).sum(axis=1))
            mapped[block] = part * (norm / np.maximum(lengths, SHORTEST))[:, None]
        return mapped


def noisy_gram(
    host: Host,
    keep: Keep,
    rows: Sequence[Integers],
    *,
    sigma: float,
    total: int,
    rows_per_unit: int = 1,
    split: NoiseSplit = EVEN,
) -> list[Integers]:
    """Returns to every party the sum of x x^T over all owners' records, with noise.

    Scripts call `extensions.protocols.sums.whiten.whiten`, by `crypten_ext.whiten` or
    `tfe_ext.whiten`, which checks records and charges a ledger as well.

    Args:
        host: whose parties are the owners.
        keep: follows the run, and has what was opened before.
        rows: features of each of the host's ranks, of `extensions.protocols.sums.gram.unit_rows`.
        sigma: standard deviation of the noise over how far a record, or a person with all of its
            records, moves the sum.
        total: number of rows of all owners, public.
        rows_per_unit: the most records k of one person.
        split: how the parties divide the noise.

    Guarantees:
        Opened is the sum with Gaussian noise, which is that of one step of sampling rate 1 with
        noise multiplier sigma, rounding included (`extensions.protocols.sums.gram`), and nothing
        else. For replaced records it costs less than such a step, whose sensitivity is 2 then, not
        sqrt(2).

    Cost:
        One round, an opening of 4 columns (columns + 1) bytes, of which each of CrypTen's m parties
        sends 2 (m - 1) / m. An owner multiplies rows columns^2 numbers.

    Raises:
        ArgumentError: in every party and before anything is opened: more than 4,096 columns or 2^26
            rows, or noise that cannot be drawn.
    """
    check_size(total, rows[0].shape[1])
    of_rank = dict(zip(host.ranks, rows, strict=True))
    return noisy_sum(
        host,
        keep,
        WHITENING,
        lambda rank: pack(gram(of_rank[rank])),
        sigmas(sigma * rows_per_unit),
        frac_bits=2 * FRAC_BITS,
        split=split,
    )


def ridge_of(
    sigma: float,
    *,
    parties: int,
    total: int,
    columns: int,
    split: NoiseSplit = EVEN,
) -> float:
    """Returns the ridge that suits noise of that size: 0.7 (N^2 total / columns)^(1/3).

    N is `extensions.protocols.sums.gram.noise_norm`; total / columns is about the mean eigenvalue.
    Only public numbers are in it.

    Args:
        sigma: standard deviation of the noise that remains, over the bound of a row's norm.
        parties: number m of parties.
        total: number of rows of all owners.
        columns: of a row.
        split: as in `noisy_gram`.

    Source:
        Measured: 120, 180 and 300 were best at epsilon 2, 1 and 0.5 for MNIST's 60,000 rows of
        1,024 columns, 15 % of the budget and three parties; this is 125, 191 and 294.

    Raises:
        ArgumentError: no noise.
    """
    POSITIVE.check("sigma", sigma, "Without noise no ridge follows from it.")
    norm = noise_norm(sigma, columns, parties=parties, split=split)
    return _RIDGE * math.cbrt(norm * norm * max(total, 1) / columns)
