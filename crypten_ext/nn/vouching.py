"""Records that a script shared itself, as a batch for which the caller vouches."""

from collections.abc import MutableMapping

from torch.utils.weak import WeakIdKeyDictionary

from crypten_ext.nn.provenance import Batch, Provenance, PublicBatch, mark, provenance_of
from crypten_ext.ring.crypten_ring import check_same_bits, ring_of
from extensions.errors import ArgumentError, GradientError
from extensions.privacy.sampling import check_sample_rate
from extensions.rules import POSITIVE

from crypten.mpc import MPCTensor

_samples: MutableMapping[MPCTensor, bool] = WeakIdKeyDictionary()
"""The tensors that were vouched for as a sample."""


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
        if x in _samples:
            raise GradientError(
                "x was vouched for as a sample before: the accounting takes each batch as a fresh "
                "one. Draw another, or use crypten_ext.poisson_batches."
            )
        _samples[x] = True
    public = PublicBatch(
        feature_norm=float(max_feature_norm),
        expected_size=float(x.size(0)),
        sample_rate=rate,
        overflow_probability=0.0,
    )
    batch = Batch(public, None)
    return (
        mark(x.shallow_copy(), Provenance(batch, "features")),
        mark(y.shallow_copy(), Provenance(batch, "targets")),
    )
