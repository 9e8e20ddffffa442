"""Private tensors as the records of a training, for which the caller vouches."""

from dataclasses import dataclass
from typing import Any, Literal

from extensions.errors import ArgumentError
from extensions.rules import POSITIVE
from tfe_ext.aby3.protocol import current_protocol
from tfe_ext.ring.private_tensors import share_of
from tfe_ext.ring.shares import Replicated


@dataclass(frozen=True, eq=False)
class VouchedRecords:
    """Shares of all records, and what the caller states of them.

    Attributes:
        x: of the features, (records, features).
        y: of the targets, (records, classes).
        max_feature_norm: bound of the Euclidean norm of a row of x.
    """

    x: Replicated
    y: Replicated
    max_feature_norm: float


@dataclass(frozen=True, eq=False)
class VouchedPart:
    """The features or the targets of such records; `Sequential.fit` takes them together."""

    records: VouchedRecords
    part: Literal["x", "y"]


def vouch_for(x: Any, y: Any, *, max_feature_norm: float) -> tuple[VouchedPart, VouchedPart]:
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

    Raises:
        ArgumentError: no private tensors of the current protocol, other shapes, or a bound that is
            not positive.
    """
    POSITIVE.check("max_feature_norm", max_feature_norm)
    ring = current_protocol().ring
    features, targets = share_of(ring, x, "x"), share_of(ring, y, "y")
    rows = features.shape[0] if features.shape else 0
    if rows == 0 or len(targets.shape) != 2 or targets.shape[0] != rows:
        shapes, allowed = (features.shape, targets.shape), "(records, ...) and (records, classes)"
        raise ArgumentError("x, y", shapes, allowed, code="shape")
    records = VouchedRecords(features.reshape(rows, -1), targets, max_feature_norm)
    return VouchedPart(records, "x"), VouchedPart(records, "y")


def records_of(x: Any, y: Any, max_feature_norm: float) -> VouchedRecords:
    """Returns the records of which these are the two parts.

    Args:
        x: given as features.
        y: given as targets.
        max_feature_norm: for which the optimizer plans.

    Raises:
        ArgumentError: they are not, or may have longer rows.
    """
    parts = [each for each in (x, y) if isinstance(each, VouchedPart)]
    if [each.part for each in parts] != ["x", "y"] or parts[0].records is not parts[1].records:
        given = ", ".join(
            f"{each.part} of vouch_for" if isinstance(each, VouchedPart) else type(each).__name__
            for each in (x, y)
        )
        raise ArgumentError(
            "x, y",
            given,
            "each owner's records by its name, or both tensors that one call of vouch_for returned",
            "An operation on encrypted records may mix them or scale them. For private tensors "
            "declare what cannot be checked: tfe_ext.keras.vouch_for(x, y, max_feature_norm=...).",
            code="type",
        )
    records = parts[0].records
    if records.max_feature_norm > max_feature_norm:
        raise ArgumentError(
            "max_feature_norm",
            max_feature_norm,
            f"at least {records.max_feature_norm:g}, which was vouched for",
            "Give the optimizer the same bound.",
            code="range",
        )
    return records
