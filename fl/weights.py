"""A model as one row of numbers: its parameters and floating-point buffers, in their order."""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from extensions.errors import ArgumentError

Weights = npt.NDArray[np.float32]


def _entries(model: nn.Module) -> list[Tensor]:
    entries = [entry for entry in model.state_dict().values() if entry.is_floating_point()]
    if wrong := {str(entry.dtype) for entry in entries} - {"torch.float32"}:
        raise ArgumentError("model", sorted(wrong), "of single precision", "Type: model.float()")
    if not entries:
        raise ArgumentError("model", type(model).__name__, "one with parameters")
    return entries


def get_weights(model: nn.Module) -> Weights:
    """Returns a copy of all values of the model (size,).

    Integer buffers, such as counts of batches, are no part of it: every training of a client begins
    with those of the model that the run was given.

    Raises:
        ArgumentError: a model without parameters, or of another precision.
    """
    row: Weights = torch.cat([entry.reshape(-1) for entry in _entries(model)]).numpy().copy()
    return row


def set_weights(model: nn.Module, weights: Weights) -> None:
    """Gives the model these values, in place."""
    row = torch.from_numpy(weights.copy())
    entries = _entries(model)
    with torch.no_grad():
        parts = torch.split(row, [entry.numel() for entry in entries])
        for entry, part in zip(entries, parts, strict=True):
            entry.copy_(part.reshape(entry.shape))
