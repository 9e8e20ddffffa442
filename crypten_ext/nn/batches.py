"""Batches of a script: drawn from every party's records, vouched for, or cut into pieces."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from crypten_ext.nn.plain_records import as_arrays
from crypten_ext.nn.provenance import (
    Provenance,
    SharedBatch,
    content_of,
    is_spent,
    mark,
    provenance_of,
    refusal,
)
from crypten_ext.ring.crypten_ring import CrypTenRing, as_tensor, check_same_bits, ring_of
from crypten_ext.ring.factors import Factor
from crypten_ext.world import exchange
from extensions.errors import ArgumentError, GradientError
from extensions.privacy.mechanisms import check_real
from extensions.privacy.randomness import SystemSource
from extensions.privacy.sampling import (
    OVERFLOW_PROBABILITY,
    OwnRecords,
    Rows,
    capacity,
    check_records,
    check_sample_rate,
    draw_rows,
    encode_targets,
)
from extensions.protocols.agreement import comparable
from extensions.protocols.announcement import Announcement, agree_on_records
from extensions.protocols.optimizer.sample import Sample, SampleFacts
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
    public = SampleFacts(
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
    public: SampleFacts,
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
        batch = Sample(public, sum(rows), shared)
        yield _marked(batch, as_tensor(ring, x.reshape(-1, *shape)), as_tensor(ring, y))


def _marked(batch: Sample, x: MPCTensor, y: MPCTensor) -> tuple[MPCTensor, MPCTensor]:
    return mark(x, Provenance(batch, "features")), mark(y, Provenance(batch, "targets"))


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


def vouch_for(
    x: MPCTensor, y: MPCTensor, *, sample_rate: float, max_feature_norm: float
) -> tuple[MPCTensor, MPCTensor]:
    """Returns encrypted records as a batch for one step, on the caller's word; nothing is sent.

    `poisson_batches` draws and checks what is taken on trust here. If one of these is false, the
    epsilon that an optimizer reports is false:

    - Row j of x and of y is one record, and depends on no other.
    - Each record is in the sample with probability `sample_rate`, drawn afresh for this batch and
      unknown to all; the number of rows, which everybody sees, is that of the sample.
    - No row of x is longer than `max_feature_norm`, and y is in [0, 1].

    With ``sample_rate=1.0`` the rows are all records there are: call it in each step.

    Args:
        x: features, (records, ...), as `crypten.cryptensor` encrypts them.
        y: targets, (records, outputs).
        sample_rate: in (0, 1]; that of the optimizer.
        max_feature_norm: bound of the Euclidean norm of a record's features.

    Raises:
        ArgumentError: a rate or bound out of range, shapes or precisions that do not fit.
        GradientError: a batch already, or a sample that was vouched for before.
    """
    rate = check_sample_rate(sample_rate)
    POSITIVE.check("max_feature_norm", max_feature_norm)
    check_same_bits("y", y, ring_of(x).frac_bits)
    if x.dim() < 2 or y.dim() != 2 or x.size(0) != y.size(0) or x.size(0) == 0:
        shapes = tuple(x.size()), tuple(y.size())
        allowed = "shapes (records, ...) and (records, outputs)"
        raise ArgumentError("x, y", shapes, allowed, code="shape")
    for name, tensor in (("x", x), ("y", y)):
        if provenance_of(tensor) is not None:
            raise GradientError(f"{name} is part of a batch already: pass it on as it is.")
    if rate < 1.0:
        if is_spent(x):
            raise GradientError(
                "x was vouched for as a sample before: the accounting takes each batch as a fresh "
                "one. Draw another, or use crypten_ext.poisson_batches."
            )
        mark(x, None)
    public = SampleFacts(
        feature_norm=float(max_feature_norm),
        expected_size=float(x.size(0)),
        sample_rate=rate,
        overflow_probability=0.0,
    )
    return _marked(Sample(public, x.size(0)), x.shallow_copy(), y.shallow_copy())


def in_pieces(
    batches: Iterable[tuple[MPCTensor, MPCTensor]], rows: int
) -> Iterator[tuple[MPCTensor, MPCTensor]]:
    """Yields batches in pieces of so many rows: the optimizer makes its step with the last of each.

    With all others `step` adds up clipped gradients, and no noise; nothing is accounted for before
    the last. As in Opacus's BatchMemoryManager, a script needs no other change.

    Args:
        batches: of `poisson_batches`, or what `vouch_for` returned.
        rows: the most of a piece; public.

    Yields:
        features and targets of a piece, in turn; all must be passed on.

    Cost:
        Each piece takes the rounds of both passes, and those of the clipped sums. What owners do
        with the masks of their own rows is for whole batches: rows are opened among all here.

    Raises:
        ArgumentError: fewer rows than one.
        GradientError: tensors that are no batch, of two batches, or changed between two pieces.
    """
    Whole(1).check("rows", rows)
    for x, y in batches:
        yield from _cut(whole_batch_of(x, y), x, y, rows)


def _cut(
    whole: Sample, x: MPCTensor, y: MPCTensor, rows: int
) -> Iterator[tuple[MPCTensor, MPCTensor]]:
    """Yields the pieces of a batch, each of rows as they were before the first one."""
    if whole.whole is not None:
        raise refusal("x", x, "part of a whole batch")
    count, shared, ring = -(-whole.rows // rows), whole.shared, ring_of(x)
    parts = [slice(whole.rows * i // count, whole.rows * (i + 1) // count) for i in range(count)]
    before = [(content_of(x.share[part]), content_of(y.share[part])) for part in parts]
    for i, (part, contents) in enumerate(zip(parts, before, strict=True)):
        for name, tensor, content in zip("xy", (x, y), contents, strict=True):
            if content_of(tensor.share[part]) != content:
                raise refusal(name, tensor, "what it was before its first piece")
        own, targets = x.share[part].clone(), y.share[part].clone()
        if shared is not None:
            shared = SharedBatch(
                features=Factor(own.reshape(len(own), -1)),
                squared_norms=whole.shared.squared_norms[part],
                padding=whole.shared.padding[part],
            )
        piece = whole.cut(i, count, shared)
        yield _marked(piece, as_tensor(ring, own), as_tensor(ring, targets))


def whole_batch_of(x: MPCTensor, y: MPCTensor) -> Sample:
    """Returns the batch, or the piece of one, whose features and targets these are.

    Raises:
        GradientError: of none.
    """
    origin, of_targets = provenance_of(x), provenance_of(y)
    for name, tensor, found in (("x", x, origin), ("y", y, of_targets)):
        if found is None or found.uses:
            raise refusal(name, tensor, "what poisson_batches yields")
    assert origin is not None
    if origin.side != "features":
        raise refusal("x", x, "the features of a batch")
    if not origin.fits(of_targets):
        raise refusal("y", y, "those of the batch whose features are x")
    return origin.batch


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
        raise ArgumentError("x", None, "by at least one party", code="missing")
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
