"""A model as one row of numbers: its parameters and floating-point buffers, in their order."""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from extensions.errors import ArgumentError, UpdateError

Weights = npt.NDArray[np.float32]


def _entries(model: nn.Module, statistics: bool) -> dict[str, Tensor]:
    left_out = () if statistics else running_statistics(model)
    entries = {
        name: entry
        for name, entry in model.state_dict().items()
        if entry.is_floating_point() and name not in left_out
    }
    if wrong := {str(entry.dtype) for entry in entries.values()} - {"torch.float32"}:
        raise ArgumentError("model", sorted(wrong), "of single precision", "Type: model.float()")
    if not entries:
        raise ArgumentError("model", type(model).__name__, "one with parameters")
    return entries


def device_of(model: nn.Module) -> torch.device:
    """Returns where the model's values are, and so where its records have to be."""
    first: Tensor = next(iter(model.state_dict().values()))
    return first.device


def running_statistics(model: nn.Module) -> tuple[str, ...]:
    """Returns the names of all floating-point values of the model that are no parameters."""
    parameters = dict(model.named_parameters(remove_duplicate=False))
    values = model.state_dict()
    return tuple(k for k, v in values.items() if v.is_floating_point() and k not in parameters)


def get_weights(model: nn.Module, *, statistics: bool = True) -> Weights:
    """Returns a copy of all values of the model (size,), or of its parameters alone.

    Integer buffers, such as counts of batches, are no part of it: every training of a client begins
    with those of the model that the run was given, and so with running statistics that are left
    out.

    Args:
        model: of single precision.
        statistics: whether floating-point buffers are part of it.

    Raises:
        ArgumentError: a model without parameters, or of another precision.
    """
    entries = _entries(model, statistics).values()
    row: Weights = torch.cat([entry.reshape(-1).cpu() for entry in entries]).numpy().copy()
    return row


def of_parameters(model: nn.Module, *, statistics: bool = True) -> npt.NDArray[np.bool_]:
    """Returns which values of `get_weights` are parameters, (size,)."""
    others = running_statistics(model)
    entries = _entries(model, statistics)
    return np.concatenate([np.full(entries[k].numel(), k not in others) for k in entries])


def set_weights(model: nn.Module, weights: Weights, *, statistics: bool = True) -> None:
    """Gives the model these values, in place; without statistics its parameters alone."""
    row = torch.from_numpy(weights.copy())
    entries = _entries(model, statistics).values()
    with torch.no_grad():
        parts = torch.split(row, [entry.numel() for entry in entries])
        for entry, part in zip(entries, parts, strict=True):
            entry.copy_(part.reshape(entry.shape))


def next_weights(weights: Weights, mean: npt.NDArray[np.float64], *, delta: bool) -> Weights:
    """Returns the weights of the next model, in single precision.

    Args:
        weights: of the present one.
        mean: of what clients sent, (size,).
        delta: whether that is what training changed; else what it ended with.

    Raises:
        UpdateError: the mean has another size, or leads to NaN or infinity.
    """
    if mean.shape != weights.shape:
        raise UpdateError(f"the mean has shape {mean.shape}, not {weights.shape}.")
    with np.errstate(over="ignore"):
        new = (weights + mean if delta else mean).astype(np.float32)
    if not np.all(np.isfinite(new)):
        raise UpdateError("the new model would hold NaN or infinity.")
    return new
