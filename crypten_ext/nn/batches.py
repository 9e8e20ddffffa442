"""Batches of a script: drawn from every party's records, vouched for, or cut into pieces."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from crypten_ext.nn.provenance import (
    Provenance,
    content_of,
    is_spent,
    mark,
    provenance_of,
    rejection,
)
from crypten_ext.ring.crypten_ring import CrypTenRing, as_tensor, check_same_bits, ring_of
from crypten_ext.ring.factors import Factor, share_rows
from crypten_ext.ring.standing import Standing
from crypten_ext.world import exchange
from extensions.checks import check_label
from extensions.errors import ArgumentError, GradientError
from extensions.privacy.randomness import SystemSource
from extensions.privacy.sampling import (
    OVERFLOW_PROBABILITY,
    OwnRecords,
    as_reals,
    capacity,
    check_records,
    draw_rows,
    encode_targets,
)
from extensions.protocols.agreement import comparable
from extensions.protocols.host import Batch
from extensions.protocols.optimizer.sample import Sample, SampleFacts, vouched
from extensions.protocols.records import exchange_public
from extensions.public import Public
from extensions.ring.interface import NoiseSource
from extensions.rules import PART, POSITIVE, Between, Whole

import crypten
from crypten.mpc import MPCTensor


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
    """Yields encrypted batches; each holds each record with probability `sample_rate`.

    Call it at every party with the party's own plaintext records. Each party draws its sample in
    private, and pads it with empty rows to a public number, so the other parties do not learn how
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
        One round before the first batch, to compare shapes and settings; 0 bytes for a batch.
        With a sample_rate of 1 a layer's rows are sent once, in the first step.

    Raises:
        ArgumentError: in every party and before anything is shared: NaN, infinity, rows beyond the
            norm bound, wrong labels, or settings out of range or that differ between parties.

    Examples:
        >>> for xb, yb in crypten_ext.poisson_batches(x, y, sample_rate=0.5, steps=2, classes=3):
        ...     print(xb.size()[1], yb.size()[1])
        4 3
        4 3
    """
    ring = CrypTenRing(int(crypten.cfg.encoder.precision_bits))
    settings = {
        "sample_rate": sample_rate,
        "steps": steps,
        "overflow_probability": overflow_probability,
    }
    records, sizes, shape = _prepare(x, y, ring, classes, max_feature_norm, settings)
    sample_rate = float(sample_rate)
    each = overflow_probability / (steps * ring.parties)
    rows = [capacity(n, sample_rate, each) if n else 0 for n in sizes]
    public = SampleFacts(
        feature_norm=float(max_feature_norm),
        expected_size=sample_rate * sum(sizes),
        sample_rate=sample_rate,
        overflow_probability=overflow_probability / steps,
    )
    return _batches(ring, records, rows, shape, public, steps, source or SystemSource())


def _batches(
    ring: CrypTenRing,
    records: OwnRecords,
    rows: list[int],
    shape: tuple[int, ...],
    public: SampleFacts,
    steps: int,
    source: NoiseSource,
) -> Iterator[tuple[MPCTensor, MPCTensor]]:
    rate, rank = public.sample_rate, ring.rank
    for step in range(steps):
        if step == 0 or rate < 1.0:
            own = draw_rows(records, party=rank, sample_rate=rate, rows=rows[rank], source=source)
            x, y, *beside = share_rows(rows, [*own])
            factor = Factor.of_owners(x, rows, own.x) if rate < 1.0 else Standing(own.x, rows)
            shared = Batch(factor, y, *beside)
        batch = Sample(public, sum(rows), shared)
        features, targets = x.reshape(-1, *shape).clone(), y.clone()  # a caller may change them
        yield marked(batch, as_tensor(ring, features), as_tensor(ring, targets))


def marked(batch: Sample, x: MPCTensor, y: MPCTensor) -> tuple[MPCTensor, MPCTensor]:
    """Returns the features and targets of a batch, by which it is known."""
    return mark(x, Provenance(batch, "features")), mark(y, Provenance(batch, "targets"))


def vouch_for(
    x: MPCTensor, y: MPCTensor, *, sample_rate: float, max_feature_norm: float
) -> tuple[MPCTensor, MPCTensor]:
    """Declares encrypted records to be a batch for one step; nothing is sent.

    `poisson_batches` checks what you declare here. The epsilon that an optimizer reports is right
    only if all of this is true:

    - Row j of x and of y is one record, and depends on no other.
    - Each record is in the sample with probability `sample_rate`, drawn afresh for this batch and
      unknown to all; the number of rows, which everybody sees, is that of the sample.
    - Each row of x has at most the norm `max_feature_norm`, and y is in [0, 1].

    With ``sample_rate=1.0`` the rows are all records there are: call it in each step.

    Args:
        x: features, (records, ...), as `crypten.cryptensor` encrypts them.
        y: targets, (records, outputs).
        sample_rate: in (0, 1]; that of the optimizer.
        max_feature_norm: bound of the Euclidean norm of a record's features.

    Raises:
        ArgumentError: a rate or bound out of range, or shapes or precisions that differ.
        GradientError: a batch already, or a sample that was vouched for before.

    Examples:
        >>> features = crypten.cryptensor(torch.full((6, 4), 0.5))
        >>> targets = crypten.cryptensor(torch.eye(3).repeat(2, 1))
        >>> xb, yb = crypten_ext.vouch_for(features, targets, sample_rate=1.0, max_feature_norm=1.0)
        >>> xb.size()
        torch.Size([6, 4])
    """
    batch = vouched(tuple(x.size()), tuple(y.size()), max_feature_norm, sample_rate)
    check_same_bits("y", y, ring_of(x).frac_bits)
    for name, tensor in (("x", x), ("y", y)):
        if provenance_of(tensor) is not None:
            raise GradientError(f"{name} is already part of a batch: pass it on unchanged.")
    if batch.public.sample_rate < 1.0:
        if is_spent(x):
            raise GradientError(
                "vouch_for took this x as a sample before, but each batch must be a fresh sample. "
                "Draw another, or use crypten_ext.poisson_batches."
            )
        mark(x, None)
    return marked(batch, x.shallow_copy(), y.shallow_copy())


def in_pieces(
    batches: Iterable[tuple[MPCTensor, MPCTensor]], rows: int
) -> Iterator[tuple[MPCTensor, MPCTensor]]:
    """Splits batches into pieces that fit into memory; the last piece makes the step.

    For each earlier piece `step` only adds up clipped gradients. Noise and accounting come with the
    last one. As with Opacus's BatchMemoryManager, your script stays as it is otherwise.

    Args:
        batches: of `poisson_batches`, or what `vouch_for` returned.
        rows: most rows of a piece; public.

    Yields:
        features and targets of a piece, in turn; all must be passed on.

    Cost:
        Each piece takes the rounds of both passes, and those of the clipped sums. What owners do
        with the masks of their own rows is for whole batches: rows are opened among all here.

    Raises:
        ArgumentError: fewer rows than one.
        GradientError: tensors from outside a batch, of two batches, or changed between two pieces.

    Examples:
        >>> batches = crypten_ext.poisson_batches(x, y, sample_rate=1.0, steps=1, classes=3)
        >>> [len(xb) for xb, yb in crypten_ext.in_pieces(batches, rows=30)]
        [26, 27, 27]
    """
    Whole(1).check("rows", rows)
    for x, y in batches:
        yield from _cut(whole_batch_of(x, y), x, y, rows)


def _cut(
    whole: Sample, x: MPCTensor, y: MPCTensor, rows: int
) -> Iterator[tuple[MPCTensor, MPCTensor]]:
    """Yields the pieces of a batch, each of rows as they were before the first one."""
    if whole.whole is not None:
        raise rejection("x", x, "part of a whole batch")
    count, shared, ring = -(-whole.rows // rows), whole.shared, ring_of(x)
    parts = [slice(whole.rows * i // count, whole.rows * (i + 1) // count) for i in range(count)]
    before = [(content_of(x.share[part]), content_of(y.share[part])) for part in parts]
    for i, (part, contents) in enumerate(zip(parts, before, strict=True)):
        for name, tensor, content in zip("xy", (x, y), contents, strict=True):
            if content_of(tensor.share[part]) != content:
                raise rejection(name, tensor, "what it was before its first piece")
        own, targets = x.share[part].clone(), y.share[part].clone()
        if shared is not None:
            rows_of_part = Factor(own.reshape(len(own), -1))
            norms, padding = whole.shared.squared_norms[part], whole.shared.padding[part]
            shared = Batch(rows_of_part, targets, norms, padding)
        piece = whole.cut(i, count, shared)
        yield marked(piece, as_tensor(ring, own), as_tensor(ring, targets))


def whole_batch_of(x: MPCTensor, y: MPCTensor) -> Sample:
    """Returns the batch, or the piece of one, whose features and targets these are.

    Raises GradientError if there is none.
    """
    origin, of_targets = provenance_of(x), provenance_of(y)
    for name, tensor, found in (("x", x, origin), ("y", y, of_targets)):
        if found is None or found.uses:
            raise rejection(name, tensor, "a batch of poisson_batches")
    assert origin is not None
    if origin.side != "features":
        raise rejection("x", x, "the features of a batch")
    if not origin.fits(of_targets):
        raise rejection("y", y, "those of the batch of x")
    return origin.batch


def share_records(
    x: npt.ArrayLike | None,
    y: npt.ArrayLike | None,
    *,
    classes: int | None = None,
    max_feature_norm: float = 1.0,
) -> tuple[MPCTensor, MPCTensor]:
    """Returns all parties' records encrypted, in rank order and unpadded; for evaluation only.

    Args and errors are those of `poisson_batches`.

    Examples:
        >>> features, targets = crypten_ext.share_records(x, y, classes=3)
        >>> features.size(), targets.size()
        (torch.Size([80, 4]), torch.Size([80, 3]))
    """
    ring = CrypTenRing(int(crypten.cfg.encoder.precision_bits))
    records, rows, shape = _prepare(x, y, ring, classes, max_feature_norm, {})
    features, targets = share_rows(rows, [records.features, records.labels])
    return as_tensor(ring, features.reshape(-1, *shape)), as_tensor(ring, targets)


def _prepare(
    x: Any,
    y: Any,
    ring: CrypTenRing,
    classes: int | None,
    max_feature_norm: float,
    settings: dict[str, Any],
) -> tuple[OwnRecords, list[int], tuple[int, ...]]:
    """Checks this party's records and compares shapes with the others, in one round.

    Returns:
        Its records, none of the others' widths if it has none; the number of each party's; and the
        shape of a record's features. Labels are encoded anew if others have further classes.
    """
    problem: ArgumentError | None = None
    own, records, labels = Public(), None, None
    settings = {**settings, "classes": classes, "max_feature_norm": max_feature_norm}
    try:
        check_settings(settings)
        if (given := _as_arrays(x, y)) is not None:
            features, labels = given
            columns, images = labels.shape[1] if labels.ndim == 2 else 0, features.shape[2:]
            needed = classes or columns or int(labels.max()) + 1
            records = check_records(
                features.reshape(len(features), -1),
                labels,
                frac_bits=ring.frac_bits,
                classes=needed,
                max_feature_norm=max_feature_norm,
            )
            sizes = len(features), math.prod(features.shape[1:]), needed, columns
            own = Public(*sizes, *([0, 0, *images][-2:]))
    except ArgumentError as error:
        problem = error
    statement = comparable({**settings, "frac_bits": ring.frac_bits})
    everybody = exchange_public(exchange, [own], statement, problem)
    shape = next((each.shape for each in everybody if each.records), None)
    if shape is None:
        raise ArgumentError("x", None, "by at least one party", code="missing")
    bits, agreed = ring.frac_bits, classes or max(each.classes for each in everybody)
    if records is None:
        records = OwnRecords.none(math.prod(shape), agreed, bits)
    elif labels is not None and agreed > own.classes:
        more = encode_targets(labels, len(records), frac_bits=bits, classes=agreed)
        records = replace(records, labels=more)
    return records, [each.records for each in everybody], shape


def _as_arrays(x: Any, y: Any) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.generic]] | None:
    """Returns features and labels as arrays that fit together; None for no records.

    Raises ArgumentError for encrypted tensors, no numbers, shapes that do not fit, or labels
    beyond the range.
    """
    for name, value in (("x", x), ("y", y)):
        if isinstance(value, crypten.CrypTensor):
            raise ArgumentError(
                name,
                "an encrypted tensor",
                "this party's own plaintext records",
                "The owner of a record draws the private sample before sharing it.",
                code="type",
            )
    if x is None or y is None:
        if x is not y:
            given, absent = ("y", "x") if x is None else ("x", "y")
            raise ArgumentError(absent, None, f"with {{{given}}}", code="missing")
        return None
    features, labels = as_reals("x", x).astype(np.float64, copy=False), as_reals("y", y)
    if features.ndim not in (2, 3, 4) or 0 in features.shape:
        raise ArgumentError(
            "x",
            features.shape,
            "a shape (records, features), (records, channels, length) or (records, channels, "
            "height, width), all at least 1",
            code="shape",
        )
    if labels.ndim not in (1, 2) or len(labels) != len(features):
        allowed = f"a shape ({len(features)},) or ({len(features)}, classes)"
        raise ArgumentError("y", labels.shape, allowed, code="shape")
    if not np.isfinite(labels.astype(np.float64)).all():
        raise ArgumentError("y", "NaN or infinity", "finite", code="data")
    if labels.ndim == 1:
        check_label("y", labels.max().item())
    return features, labels


def check_settings(settings: Mapping[str, Any]) -> None:
    """Checks the settings of batches; of classes there may be none."""
    for name, value in settings.items():
        if value is not None or name != "classes":
            _RULES[name].check(name, value)


_RULES = {
    **{"steps": Whole(1), "classes": Whole(1), "max_feature_norm": POSITIVE, "sample_rate": PART},
    "overflow_probability": Between(0.0, 1.0, below=True),
}
"""What the settings of batches must be."""
