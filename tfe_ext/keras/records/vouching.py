"""Private tensors as the records of a training, for which the caller vouches."""

from typing import Any

from extensions.errors import ArgumentError
from extensions.protocols.optimizer.sample import Half, vouched
from tfe_ext.aby3.protocol import current_protocol
from tfe_ext.ring.private_tensors import share_of
from tfe_ext.ring.shares import Replicated


def vouch_for(x: Any, y: Any, *, max_feature_norm: float) -> tuple[Half, Half]:
    """Returns private tensors as what `Sequential.fit` takes, on the caller's word; local.

    Records that owners give in the clear are checked; here the following is taken on trust. If it
    is false, the epsilon that an optimizer reports is false:

    - Row j of x and of y is one record, and depends on no other.
    - These are all the records: an optimizer takes them with ``sample_rate=1.0`` alone.
    - No row of x is longer than `max_feature_norm`, and y is in [0, 1].

    Later changes of a private variable have no influence.

    Args:
        x: features, (records, ...); the further axes are flattened.
        y: targets, (records, classes).
        max_feature_norm: bound of the Euclidean norm of a record's features.
    """
    ring = current_protocol().ring
    shares = features, targets = share_of(ring, x, "x"), share_of(ring, y, "y")
    shape = features.shape if len(features.shape) != 1 else (*features.shape, 1)
    records = vouched(shape, targets.shape, max_feature_norm, shared=shares)
    return Half(records, "features"), Half(records, "targets")


def records_of(x: Any, y: Any, max_feature_norm: float) -> tuple[Replicated, Replicated]:
    """Returns the shares of the two halves that one call of `vouch_for` returned."""
    if not (isinstance(x, Half) and isinstance(y, Half) and x.fits(y)):
        given = (str(each) if isinstance(each, Half) else type(each).__name__ for each in (x, y))
        raise ArgumentError(
            "x, y",
            ", ".join(given),
            "each owner's records by its name, or both tensors that one call of vouch_for returned",
            "An operation on encrypted records may mix them or scale them. For private tensors "
            "declare what cannot be checked: tfe_ext.keras.vouch_for(x, y, max_feature_norm=...).",
            code="type",
        )
    bound = x.batch.public.feature_norm
    if bound > max_feature_norm:
        raise ArgumentError(
            "max_feature_norm",
            max_feature_norm,
            f"at least {bound:g}, which was vouched for",
            "Give the optimizer the same bound.",
            code="range",
        )
    shares: tuple[Replicated, Replicated] = x.batch.shared
    return shares
