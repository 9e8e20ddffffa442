"""What a party gives as its own records: arrays of numbers, before anything is shared."""

from typing import Any

import numpy as np
import numpy.typing as npt

from extensions.checks import check_label
from extensions.errors import ArgumentError
from extensions.privacy.sampling import as_reals

import crypten


def as_arrays(x: Any, y: Any) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.generic]] | None:
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
                "Private sampling is drawn by the owner of a record, before it is shared.",
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
