"""Matrix products of torch's integers by NumPy, which takes a half to a fifth of torch's time."""

import numpy as np
import torch

_COPIED = 1 << 20
"""Bytes of a second operand that is laid out anew: what is larger is not kept twice."""


def matmul(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Returns x @ y modulo 2^64, for any shapes that torch takes.

    Both ways multiply integers in a plain loop. NumPy's adds up faster, and most so where a column
    of y lies in one piece.
    """
    has_values = type(x) is type(y) is torch.Tensor and x.device.type == "cpu"
    if not has_values or y.ndim < 2:
        return torch.matmul(x, y)
    left, right = x.numpy(), y.numpy()
    if y.nbytes <= _COPIED:
        right = np.ascontiguousarray(right.swapaxes(-1, -2)).swapaxes(-1, -2)
    return torch.from_numpy(left @ right)
