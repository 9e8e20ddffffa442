"""Poisson batches that hide who was sampled: owners draw in private, and pad to a public size."""

import bisect
import math
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from extensions.errors import ArgumentError
from extensions.ring.fixed_point import Integers, encode
from extensions.ring.interface import NoiseSource
from extensions.rules import PART, Between

OVERFLOW_PROBABILITY = 1e-9
"""Most that it may be probable that any batch of a run has more records than rows."""

_BLOCK = 1 << 16  # words
_REALS = (Real, np.bool_)


@dataclass(frozen=True, kw_only=True)
class OwnRecords:
    """One party's records, checked and encoded; secret. A host may have tensors for its arrays.

    Attributes:
        features: ring integers, (records, features).
        labels: ring integers in [0, 2^f], (records, classes).
        rows_per_unit: k, rows of each person, one person's after the other's; 1 where each record
            is another's. Features and labels have k rows a person.
        empty: 1 in rows that hold no record, which there are where a person has fewer than k, else
            0, (rows,); None if there are none.
    """

    features: Integers
    labels: Integers
    frac_bits: int
    rows_per_unit: int = 1
    empty: Integers | None = None

    def __len__(self) -> int:
        """Number of persons: of what is drawn together."""
        return len(self.features) // self.rows_per_unit

    @classmethod
    def none(cls, features: int, classes: int, frac_bits: int) -> "OwnRecords":
        """Returns no records of so many features and classes."""
        x, y = (np.zeros((0, width), dtype=np.int64) for width in (features, classes))
        return cls(features=x, labels=y, frac_bits=frac_bits)


@dataclass(frozen=True)
class Batch:
    """Rows of one batch: one party's, secret, padding last; or shares of those of all, by rank.

    Attributes:
        x: features, (rows, features), zero in rows of padding; or what `Ring.factor` makes of them.
        y: targets, (rows, classes).
        squared_norms: exact ||x_j||^2 with 2f fractional bits, (rows,); None if nobody gave them.
        padding: 1 in rows that count for nothing, else 0, (rows,); None if all rows count.
    """

    x: Any
    y: Any
    squared_norms: Any
    padding: Any

    def __iter__(self) -> Iterator[Any]:
        return iter((self.x, self.y, self.squared_norms, self.padding))

    def part(self, rows: slice) -> "Batch":
        """Returns some of the rows."""
        return Batch(*(None if column is None else column[rows] for column in self))


def as_reals(name: str, values: npt.ArrayLike) -> npt.NDArray[np.generic]:
    """Returns an array of real numbers, for example of objects that all are such numbers."""
    try:
        array = np.asarray(values)
    except (TypeError, ValueError) as error:
        given, allowed = type(values).__name__, "an array of real numbers"
        raise ArgumentError(name, given, allowed, str(error), code="type") from error
    found = str(array.dtype)
    if array.dtype.kind in "biuf":
        return array
    if array.dtype.kind == "O":
        others = {type(each).__name__ for each in array.flat if not isinstance(each, _REALS)}
        if not others:
            return array.astype(np.float64)
        found = f"objects of type {', '.join(sorted(others))}"
    raise ArgumentError(name, f"an array of {found}", "an array of real numbers", code="type")


def check_records(
    features: npt.ArrayLike,
    labels: npt.ArrayLike,
    *,
    frac_bits: int,
    classes: int,
    max_feature_norm: float,
) -> OwnRecords:
    """Returns the records encoded, or says what is wrong with them before anything is shared.

    Args:
        labels: (records,) integers in 0..classes - 1, or (records, classes) targets in [0, 1]; of
            one output also (records,) targets.

    Cost:
        Memory of the result, and little beside it.
    """
    x = as_reals("features", features)
    if x.ndim != 2 or 0 in x.shape:
        allowed = "a shape (records, features), both at least 1"
        raise ArgumentError("features", x.shape, allowed, code="shape")
    for block in row_blocks(x.shape):
        finite = np.isfinite(x[block].astype(np.float64))
        if not finite.all():
            row, column = np.argwhere(~finite)[0].tolist()
            place = f"row {block.start + row}, column {column}"
            raise ArgumentError("features", place, "finite", "Impute or drop it.", code="data")
    targets = encode_targets(labels, len(x), frac_bits=frac_bits, classes=classes)
    return OwnRecords(
        features=encode_features(x, frac_bits, max_feature_norm),
        labels=targets,
        frac_bits=frac_bits,
    )


def encode_targets(
    labels: npt.ArrayLike, records: int, *, frac_bits: int, classes: int
) -> Integers:
    """Returns the targets of so many records as ring integers, (records, classes).

    Labels are those of `check_records`.
    """
    y = np.asarray(labels)
    if y.shape not in ((records,), (records, classes)):
        allowed = f"a shape ({records},) or ({records}, {classes})"
        raise ArgumentError("labels", y.shape, allowed, code="shape")
    if classes == 1:
        y = y.reshape(records, 1)
    if y.ndim == 2:
        y = as_reals("labels", y)
    encoded = np.zeros((records, classes), dtype=np.int64)
    for block in row_blocks(encoded.shape):
        if y.ndim == 1:
            check_labels(y[block], classes, first=block.start)
            own = y[block].astype(np.int64)
            encoded[block][np.arange(len(own)), own] = 1 << frac_bits
            continue
        targets = y[block].astype(np.float64)
        if not ((targets >= 0.0) & (targets <= 1.0)).all():
            raise ArgumentError("labels", "targets", "in [0, 1]", code="data")
        encoded[block] = encode(targets, frac_bits, name="labels")
    return encoded


def encode_features(
    features: npt.NDArray[np.generic], frac_bits: int, max_feature_norm: float
) -> Integers:
    """Returns rows as ring integers, whose norms are at most the bound but for rounding.

    Args:
        features: (records, features) real numbers, of one record at least.
    """
    encoded = np.empty(features.shape, dtype=np.int64)
    norms = np.empty(len(features))
    for block in row_blocks(features.shape):
        encoded[block] = encode(features[block], frac_bits, name="features")
        reals = np.ldexp(encoded[block].astype(np.float64), -frac_bits)
        norms[block] = np.sqrt((reals**2).sum(axis=1))
    slack = math.sqrt(features.shape[1]) * 2.0**-frac_bits
    if not norms.max() <= max_feature_norm + slack:
        row = int(norms.argmax())
        raise ArgumentError(
            "features",
            f"row {row}",
            f"of norm at most max_feature_norm = {max_feature_norm:g}",
            "Rescale the rows or declare a larger bound.",
            code="data",
        )
    return encoded


def row_blocks(shape: tuple[int, ...], words: int = _BLOCK) -> Iterator[slice]:
    """Yields rows in turn, so many that what is computed of them takes little memory.

    Args:
        words: of a block, unless one row has more.
    """
    rows, width = shape
    step = max(1, words // max(1, width))
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


def check_labels(labels: npt.NDArray[np.generic], classes: int, *, first: int = 0) -> None:
    """Checks that every label is the number of a class.

    Raises:
        ArgumentError: one is not; its record is named, and never it.
    """
    wrong = np.ones(labels.shape, dtype=bool)
    if labels.dtype.kind in "biuf":
        reals = labels.astype(np.float64)
        wrong = ~((reals >= 0) & (reals < classes) & (reals == np.floor(reals)))
    if wrong.any():
        row = first + int(np.argmax(wrong))
        allowed = f"an integer in 0..{classes - 1}"
        raise ArgumentError("labels", f"row {row}", allowed, code="data")


def check_sample_rate(sample_rate: float) -> float:
    """Returns `sample_rate` as Python's float if it is a probability above 0."""
    PART.check("sample_rate", sample_rate)
    return float(sample_rate)


def capacity(records: int, sample_rate: float, overflow_probability: float) -> int:
    """Returns the rows that one owner's batch needs: more are drawn with at most that probability.

    Args:
        records: number of records of the owner, or of persons; public.
        overflow_probability: of one batch of one owner; with 0 there is room for all records.
    """
    from scipy.special import bdtrc

    check_sample_rate(sample_rate)
    Between(0, 1, below=True).check("overflow_probability", overflow_probability)
    if overflow_probability == 0.0:
        return max(1, records)
    rows = bisect.bisect_left(
        range(records),
        True,
        key=lambda fit: bool(bdtrc(fit, records, sample_rate) <= overflow_probability),
    )
    return max(1, rows)


def draw_rows(
    records: OwnRecords, *, party: int, sample_rate: float, rows: int, source: NoiseSource
) -> Batch:
    """Returns a fresh Poisson sample of the persons, padded to a public number of rows.

    Each person is drawn with all of its k rows. Should more be drawn than fit, a random choice of
    them stays; `capacity` bounds the probability of that, which is charged to delta.
    """
    k = records.rows_per_unit
    drawn = np.flatnonzero(source.bernoulli(party, sample_rate, len(records)))
    if len(drawn) > rows // k:
        drawn = np.random.default_rng().choice(drawn, rows // k, replace=False)
    chosen = (k * drawn[:, None] + np.arange(k)).reshape(-1)
    features = np.zeros((rows, records.features.shape[1]), dtype=np.int64)
    labels = np.zeros((rows, records.labels.shape[1]), dtype=np.int64)
    padding = np.ones(rows, dtype=np.int64)
    records.features.take(chosen, axis=0, out=features[: len(chosen)], mode="clip")
    labels[: len(chosen)] = records.labels[chosen]
    padding[: len(chosen)] = 0 if records.empty is None else records.empty[chosen]
    return Batch(features, labels, np.einsum("ij,ij->i", features, features), padding)
