"""Poisson batches from every party's own records, shared without a message."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from crypten_ext.nn.plain_records import as_arrays
from crypten_ext.nn.provenance import Batch, Provenance, PublicBatch, SharedBatch, mark
from crypten_ext.ring.crypten_ring import CrypTenRing, as_tensor
from crypten_ext.ring.factors import Factor
from crypten_ext.world import exchange
from extensions.errors import ArgumentError
from extensions.privacy.mechanisms import check_real
from extensions.privacy.randomness import SystemSource
from extensions.privacy.sampling import (
    OVERFLOW_PROBABILITY,
    OwnRecords,
    Rows,
    capacity,
    check_records,
    draw_rows,
    encode_targets,
)
from extensions.protocols.agreement import comparable
from extensions.protocols.announcement import Announcement, agree_on_records
from extensions.ring.fixed_point import Integers
from extensions.ring.interface import NoiseSource
from extensions.rules import POSITIVE, Whole

import crypten
from crypten import communicator
from crypten.mpc import MPCTensor
from crypten.mpc.primitives import ArithmeticSharedTensor


def poisson_batches(
    x: npt.ArrayLike | None,
    y: npt.ArrayLike | None,
    *,
    sample_rate: float,
    steps: int,
    classes: int | None = None,
    max_feature_norm: float = 1.0,
    overflow_probability: float = OVERFLOW_PROBABILITY,
    source: NoiseSource | None = None,
) -> Iterator[tuple[MPCTensor, MPCTensor]]:
    """Yields encrypted batches in which each record of each party is present with `sample_rate`.

    Every party calls it with its own plaintext records. It draws its own sample in private, and
    pads it with rows that count for nothing to a public number of rows, so that nobody learns how
    many records were drawn. The rows of all parties are concatenated in rank order.

    Args:
        x: this party's features, (records, features); or signals, (records, channels, length), or
            images, (records, channels, height, width). None if it has none.
        y: this party's labels: (records,) integers, or (records, classes) targets in [0, 1].
        sample_rate: Poisson rate q in (0, 1].
        steps: number of batches.
        classes: number of outputs; by default the largest that any party's labels need, which
            tells the others this party's largest label.
        max_feature_norm: public bound of the Euclidean norm of a record of x.
        overflow_probability: that a sample exceeds its rows (`allowed_overflow`).
        source: of the sampling; by default the operating system.

    Yields:
        features, (rows, ...), and targets, (rows, classes), to be passed on unchanged.

    Cost:
        One round before the first batch, to compare shapes and settings; not a byte for a batch.

    Raises:
        ArgumentError: in every party and before anything is shared: NaN, infinity, rows beyond the
            norm bound, wrong labels, or settings out of range or that differ between parties.
    """
    ring = CrypTenRing(int(crypten.cfg.encoder.precision_bits))
    settings = {
        "sample_rate": sample_rate,
        "steps": steps,
        "overflow_probability": overflow_probability,
    }
    records, announcements = _prepare(x, y, ring, classes, max_feature_norm, settings)
    sample_rate = float(sample_rate)
    each = overflow_probability / (steps * ring.parties)
    sizes = [a.records for a in announcements]
    rows = [capacity(n, sample_rate, each) if n else 0 for n in sizes]
    public = PublicBatch(
        feature_norm=float(max_feature_norm),
        expected_size=sample_rate * sum(sizes),
        sample_rate=sample_rate,
        overflow_probability=overflow_probability / steps,
    )
    sizes_of_rows = _sizes(announcements, classes)
    return _batches(ring, records, rows, sizes_of_rows, public, steps, source or SystemSource())


def _sizes(
    announcements: Sequence[Announcement], classes: int | None
) -> tuple[tuple[int, ...], int]:
    """Returns the shape of a record's features, and the number of outputs."""
    outputs = classes or max(a.classes for a in announcements)
    return next(a.shape for a in announcements if a.records), outputs


def _batches(
    ring: CrypTenRing,
    records: OwnRecords | None,
    rows: list[int],
    sizes: tuple[tuple[int, ...], int],
    public: PublicBatch,
    steps: int,
    source: NoiseSource,
) -> Iterator[tuple[MPCTensor, MPCTensor]]:
    shape, outputs = sizes
    for _ in range(steps):
        own: Rows | None = None
        if records is not None:
            own = draw_rows(
                records,
                party=ring.rank,
                sample_rate=public.sample_rate,
                rows=rows[ring.rank],
                source=source,
            )
        x, y, norms, padding = share_rows(
            rows,
            [(math.prod(shape),), (outputs,), (), ()],
            None if own is None else [own.features, own.labels, own.squared_norms, own.padding],
        )
        features = Factor.of_owners(x, rows, None if own is None else own.features)
        shared = SharedBatch(features=features, squared_norms=norms, padding=padding)
        batch = Batch(public, shared)
        yield (
            mark(as_tensor(ring, x.reshape(-1, *shape)), Provenance(batch, "features")),
            mark(as_tensor(ring, y), Provenance(batch, "targets")),
        )


def share_rows(
    rows: Sequence[int], shapes: Sequence[tuple[int, ...]], own: Sequence[Integers] | None
) -> list[torch.Tensor]:
    """Returns shares of every party's rows, one after the other in rank order; local.

    Args:
        rows: public number of rows of each party.
        shapes: shape of one row, for each tensor.
        own: this party's ring integers, one array for each tensor; None if it has no rows.
    """
    rank = communicator.get().get_rank()
    start = sum(rows[:rank])
    shares = []
    for i, shape in enumerate(shapes):
        share = ArithmeticSharedTensor.PRZS(torch.Size((sum(rows), *shape))).share
        if own is not None:
            share[start : start + rows[rank]] += torch.from_numpy(np.asarray(own[i]))
        shares.append(share)
    return shares


def share_records(
    x: npt.ArrayLike | None,
    y: npt.ArrayLike | None,
    *,
    classes: int | None = None,
    max_feature_norm: float = 1.0,
) -> tuple[MPCTensor, MPCTensor]:
    """Returns all parties' records encrypted, in rank order, unpadded: for evaluation only.

    Args and errors are those of `poisson_batches`.
    """
    ring = CrypTenRing(int(crypten.cfg.encoder.precision_bits))
    records, announcements = _prepare(x, y, ring, classes, max_feature_norm, {})
    rows = [a.records for a in announcements]
    shape, outputs = _sizes(announcements, classes)
    own = None if records is None else [records.features, records.labels]
    features, targets = share_rows(rows, [(math.prod(shape),), (outputs,)], own)
    return as_tensor(ring, features.reshape(-1, *shape)), as_tensor(ring, targets)


def _prepare(
    x: Any,
    y: Any,
    ring: CrypTenRing,
    classes: int | None,
    max_feature_norm: float,
    settings: dict[str, Any],
) -> tuple[OwnRecords | None, list[Announcement]]:
    """Checks this party's records and compares shapes with the others, in one round.

    The labels are encoded anew if the others have labels of further classes.
    """
    problem: ArgumentError | None = None
    own, records = Announcement(), None
    settings = {**settings, "classes": classes, "max_feature_norm": max_feature_norm}
    try:
        _check(settings)
        features, labels = as_arrays(x, y)
        if features is not None and labels is not None:
            needed = classes or (labels.shape[1] if labels.ndim == 2 else int(labels.max()) + 1)
            records = check_records(
                features.reshape(len(features), -1),
                labels,
                frac_bits=ring.frac_bits,
                classes=needed,
                max_feature_norm=max_feature_norm,
            )
            own = Announcement(
                records=len(features),
                features=math.prod(features.shape[1:]),
                classes=needed,
                columns=labels.shape[1] if labels.ndim == 2 else 0,
                height=features.shape[2] if features.ndim == 4 else 0,
                width=features.shape[-1] if features.ndim > 2 else 0,
            )
    except ArgumentError as error:
        problem = error
    statement = comparable({**settings, "frac_bits": ring.frac_bits})
    announcements = agree_on_records(exchange, [own], statement, problem)
    if not any(a.records for a in announcements):
        allowed = "records of at least one party"
        raise ArgumentError("x", "no records at any party", allowed, code="data")
    agreed = classes or max(a.classes for a in announcements)
    if records is not None and labels is not None and agreed > own.classes:
        bits = ring.frac_bits
        more = encode_targets(labels, len(records), frac_bits=bits, classes=agreed)
        records = replace(records, labels=more)
    return records, announcements


def _check(settings: Mapping[str, Any]) -> None:
    """Raises ArgumentError unless batches can have all of these settings."""
    for name, value in settings.items():
        if name == "steps" or (name == "classes" and value is not None):
            Whole(1).check(name, value)
        elif name == "max_feature_norm":
            POSITIVE.check(name, value)
        elif name != "classes":
            check_real(name, value)
