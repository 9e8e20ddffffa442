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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from extensions.errors import ArgumentError
from extensions.privacy.accounting import Ledger
from extensions.privacy.sampling import OwnRecords, as_reals, check_records, encode_features
from extensions.protocols.agreement import comparable
from extensions.protocols.host import Host
from extensions.protocols.noise import EVEN, NoiseSplit, summand_scale
from extensions.protocols.noisy_sums.noisy_sum import noisy_sum
from extensions.protocols.noisy_sums.second_moment import (
    FRAC_BITS,
    blocks,
    check_size,
    noise_norm,
    pack,
    second_moment,
    sigmas,
    unit_rows,
    unpack,
)
from extensions.protocols.pea import LocalData, RunCallbacks, Summands
from extensions.protocols.records import Records
from extensions.protocols.settings import Training
from extensions.ring.fixed_point import Integers, Reals, decode
from extensions.rules import NOT_NEGATIVE, POSITIVE

WHITENING = "whitening"
"""Name of the release, and of the noise in ledgers, to which all parties contribute."""
TITLE = "the sum of x x^T over the features x of training records, with noise"

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
        """
        mapped = np.empty(x.shape)
        for block in blocks(x.shape):
            part = x[block] @ self.matrix
            lengths = np.sqrt((part * part).sum(axis=1))
            mapped[block] = part * (norm / np.maximum(lengths, SHORTEST))[:, None]
        return mapped


def open_whitening(
    host: Host,
    callbacks: RunCallbacks,
    records: Records,
    *,
    max_feature_norm: float,
    noise_multiplier: float,
    ridge: float | None = None,
    rows_per_unit: int = 1,
    split: NoiseSplit = EVEN,
) -> Whitening:
    """Returns the map that whitens features, of the noisy sum of x x^T over all owners' records.

    Args:
        callbacks: of the run, which has what was opened before.
        noise_multiplier: standard deviation of the noise that remains after colluding parties
            subtract theirs, over how far a record, or a person with all of its records, moves the
            sum.
        ridge: what is added to the sum's eigenvalues; None: what suits the noise (`ridge_of`).

    Guarantees:
        Opened is the sum with Gaussian noise, which is that of one step of sampling rate 1 with
        that noise multiplier, rounding included (`extensions.protocols.noisy_sums.second_moment`),
        and nothing else. For replaced records it costs less than such a step, whose sensitivity is
        2 then, not sqrt(2). Rows that hold no record are zeros, and stay so.

    Cost:
        One round, an opening of 4 columns (columns + 1) bytes, of which each of CrypTen's m parties
        sends 2 (m - 1) / m. An owner multiplies rows columns^2 numbers.

    Raises:
        ArgumentError: in every party and before anything is opened: more than 4,096 columns or 2^26
            rows, noise that cannot be drawn, or no ridge without noise.
    """
    sigma, columns = noise_multiplier * rows_per_unit, records.features
    total = rows_per_unit * sum(records.sizes)
    check_size(total, columns)
    if ridge is None:
        parties = host.ring.parties
        ridge = ridge_of(sigma, parties=parties, total=total, columns=columns, split=split)
    of_rank = dict(zip(host.ranks, records.own, strict=True))

    def own(rank: int) -> list[Integers]:
        rows = of_rank[rank].features.reshape(-1, columns)
        return pack(
            second_moment(unit_rows(rows, math.ldexp(max_feature_norm, host.ring.frac_bits)))
        )

    parts = noisy_sum(
        host, callbacks, WHITENING, own, sigmas(sigma), frac_bits=2 * FRAC_BITS, split=split
    )
    return Whitening(parts=parts, ridge=ridge)


def ridge_of(
    sigma: float, *, parties: int, total: int, columns: int, split: NoiseSplit = EVEN
) -> float:
    """Returns the ridge that suits noise of that size: 0.7 (N^2 total / columns)^(1/3).

    N is `extensions.protocols.noisy_sums.second_moment.noise_norm`; total / columns is about the
    mean eigenvalue. Only public numbers are in it.

    Args:
        sigma: standard deviation of the noise that remains, over the bound of a row's norm.
        total: number of rows of all owners.

    Source:
        Measured: 120, 180 and 300 were best at epsilon 2, 1 and 0.5 for MNIST's 60,000 rows of
        1,024 columns, 15 % of the budget and three parties; this is 125, 191 and 294.
    """
    POSITIVE.check("sigma", sigma, "Without noise no ridge follows from it.")
    norm = noise_norm(sigma, columns, parties=parties, split=split)
    return _RIDGE * math.cbrt(norm * norm * max(total, 1) / columns)


def account_for_whitening(ledger: Ledger, config: Training) -> None:
    """Records what whitening costs a record, and that it is opened; nothing without."""
    if config.whiten and config.private:
        opened = config.split == "rows"
        _charge(ledger, config.noise_multiplier_whiten or 0.0, opened=opened)


def _charge(ledger: Ledger, noise_multiplier: float, *, opened: bool = True) -> None:
    """Records what a sum of x x^T costs a record, and whether it is opened."""
    ledger.record(WHITENING, noise_multiplier=noise_multiplier, sample_rate=1.0, steps=1)
    if opened:
        ledger.disclose(TITLE)


def own_whitening(
    host: Host,
    callbacks: RunCallbacks,
    records: Records,
    *,
    own_norm: float,
    noise_multiplier: float,
    ridge: float | None = None,
) -> list[Whitening]:
    """Returns the map of each rank of the host, of the noisy sum over its own block alone.

    Args:
        records: whose columns are apart.
        own_norm: bound of the norm of a row of a block.
        noise_multiplier: z of all maps together.
        ridge: as in `open_whitening`.

    Guarantees:
        Nothing is opened. Each of m owners draws all of the noise of its sum, of multiplier sqrt(m)
        z: against everybody but itself, who has those columns anyway, all m sums together cost a
        record what one of multiplier z does, as sum 1 / (m z^2) = 1 / z^2. That is for replaced
        records too, by which each sum moves by sqrt(2) at most.

    Cost:
        No round, and no byte. An owner multiplies rows columns^2 numbers.
    """
    (rows,) = records.sizes
    sigma = math.sqrt(len(records.widths)) * noise_multiplier
    bound = math.ldexp(own_norm, host.ring.frac_bits)

    def noisy(rank: int, own: OwnRecords) -> list[Integers]:
        sums = pack(second_moment(unit_rows(own.features, bound)))
        for part, each in zip(sums, sigmas(sigma), strict=True):
            if scale := summand_scale(1, each, frac_bits=2 * FRAC_BITS):
                part += host.noise.gaussian(rank, scale, part.shape)
        return sums

    def words() -> list[list[Integers]]:
        found = [noisy(*each) for each in zip(host.ranks, records.own, strict=True)]
        return found if len(host.holders) > 1 else [[part for own in found for part in own]]

    for columns in records.widths:
        check_size(rows, columns)
    kept = [part for own in callbacks.keep(WHITENING, words) for part in own]
    found = []
    for parts in zip(kept[::2], kept[1::2], strict=True):
        columns = len(parts[0])
        usual = ridge or ridge_of(sigma, parties=1, total=rows, columns=columns)
        found.append(Whitening(parts=parts, ridge=usual))
    return found


def whitened(
    host: Host, config: Training, own: LocalData, records: Records, callbacks: RunCallbacks
) -> tuple[LocalData, Records, Sequence[Whitening]]:
    """Returns the owners' records with whitened features, and the map of each rank.

    Without whitening they are as they were, and there is no map. All ranks have the same one unless
    their columns are apart (`own_whitening`).

    Call it once it is clear what the run goes on from: what it opened before is opened again.
    Guarantees, cost and errors are those of `open_whitening`. Held-out records are mapped too, and
    are no part of the sum.
    """
    if not config.whiten:
        return own, records, ()
    noise = (config.noise_multiplier_whiten or 0.0) if config.private else 0.0
    norm, ridge = config.own_norm, config.whiten_ridge
    if records.widths:
        maps = own_whitening(
            host, callbacks, records, own_norm=norm, noise_multiplier=noise, ridge=ridge
        )
    else:
        whitening = open_whitening(
            host,
            callbacks,
            records,
            max_feature_norm=norm,
            noise_multiplier=noise,
            ridge=ridge,
            rows_per_unit=config.rows_per_unit,
            split=config,
        )
        maps = [whitening] * len(host.ranks)
    train, held_out = mapped(maps, records.own, norm), mapped(maps, own.held_out, norm)
    own = replace(own, train=train, held_out=held_out)
    return own, replace(records, own=train), maps


def mapped(
    maps: Sequence[Whitening], owners: Sequence[OwnRecords], norm: float
) -> list[OwnRecords]:
    """Returns records with whitened features."""
    found = []
    for whitening, own in zip(maps, owners, strict=True):
        features = np.empty_like(own.features)
        for block in blocks(features.shape):
            rows = whitening.rows(decode(own.features[block], own.frac_bits), norm)
            features[block] = encode_features(rows, own.frac_bits, norm)
        found.append(replace(own, features=features))
    return found


def whiten(
    host: Host,
    own: Sequence[npt.ArrayLike | None],
    ledger: Ledger,
    *,
    noise_multiplier: float,
    max_feature_norm: float = 1.0,
    ridge: float | None = None,
    split: NoiseSplit = EVEN,
) -> Whitening:
    """Returns `open_whitening` of a script's records, checked, and charges its ledger before.

    ``whitening.rows(x)`` are an owner's features from then on, of norm 1 but for zeros; new records
    are mapped alike. Further arguments are those of `open_whitening`.

    Args:
        own: features of each of the host's ranks, (records, columns), each row a function of its
            own record alone; None of a rank that has none.

    Guarantees:
        Those of `open_whitening`. Called again it opens another sum, which is charged too.

    Cost:
        One round to agree on settings and sizes, and that of `open_whitening`; one more where masks
        need keys first.

    Raises:
        ArgumentError: in every party and before anything is opened or charged: records or settings
            that do not fit, or those of `open_whitening`.
    """
    stated = {"noise_multiplier": noise_multiplier, "ridge": ridge, **vars(split)}
    return open_whitening(
        host,
        _Charged(host, ledger, noise_multiplier),
        _agreed(host, own, max_feature_norm, stated),
        max_feature_norm=max_feature_norm,
        noise_multiplier=noise_multiplier,
        ridge=ridge,
        split=split,
    )


def whiten_own(
    host: Host,
    x: npt.ArrayLike,
    ledger: Ledger,
    *,
    noise_multiplier: float,
    max_feature_norm: float = 1.0,
    ridge: float | None = None,
) -> Whitening:
    """Returns `own_whitening` of a script's columns, checked, and charges its ledger before.

    Args:
        host: of one rank.
        noise_multiplier: of all owners' maps together.
    """
    _check_settings(noise_multiplier, max_feature_norm, ridge)
    own = _checked(x, host.ring.frac_bits, max_feature_norm)
    columns = own.features.shape[1]
    records = Records([own], (len(own),), columns, (columns,) * host.ring.parties)
    callbacks = _Charged(host, ledger, noise_multiplier, opened=False)
    (found,) = own_whitening(
        host,
        callbacks,
        records,
        own_norm=max_feature_norm,
        noise_multiplier=noise_multiplier,
        ridge=ridge,
    )
    return found


class _Charged(RunCallbacks):
    """Charges a script's ledger with the sum before it is opened, or used."""

    def __init__(
        self, host: Host, ledger: Ledger, noise_multiplier: float, *, opened: bool = True
    ) -> None:
        super().__init__(host)
        self._ledger, self._multiplier, self._opened = ledger, noise_multiplier, opened

    def keep(self, name: str, compute: Summands) -> Sequence[Sequence[Integers]]:
        words = compute()
        _charge(self._ledger, self._multiplier, opened=self._opened)
        return words


def _agreed(
    host: Host,
    own: Sequence[npt.ArrayLike | None],
    max_feature_norm: float,
    stated: Mapping[str, Any],
) -> Records:
    """Returns the owners' records, of whose sizes and settings all parties know; one round."""
    f = host.ring.frac_bits
    stated = {**stated, "max_feature_norm": max_feature_norm, "frac_bits": f}
    records, problem = [OwnRecords.none(0, 0, f) for _ in own], None
    try:
        _check_settings(stated["noise_multiplier"], max_feature_norm, stated["ridge"])
        for rank, x in enumerate(own):
            if x is not None:
                records[rank] = _checked(x, f, max_feature_norm)
    except ArgumentError as error:
        problem = error
    announced = Records.agreed(host.exchange, records, comparable(stated), problem)
    if not sum(announced.sizes):
        raise ArgumentError("x", None, "by at least one party", code="missing")
    return announced


def _check_settings(noise_multiplier: float, max_feature_norm: float, ridge: float | None) -> None:
    NOT_NEGATIVE.check("noise_multiplier", noise_multiplier)
    POSITIVE.check("max_feature_norm", max_feature_norm)
    if ridge is not None:
        POSITIVE.check("ridge", ridge)


def _checked(x: npt.ArrayLike, frac_bits: int, max_feature_norm: float) -> OwnRecords:
    rows = as_reals("x", x)
    return check_records(
        rows,
        np.zeros(rows.shape[:1]),
        frac_bits=frac_bits,
        classes=1,
        max_feature_norm=max_feature_norm,
    )
