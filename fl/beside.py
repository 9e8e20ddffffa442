"""What clients exchange beside the model: named tensors and metrics, of which all learn the mean.

They travel as further values of the update, so that every aggregator carries them and hides each
client's as it hides its update: with masks, only sums are ever seen.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from extensions.errors import ArgumentError, UpdateError
from fl.clients import ClientResult
from fl.weights import Weights

METRIC = "metric."


class Beside:
    """The names, shapes and first values of what a training exchanges beside the model.

    A training states them itself: `extra(model)` returns tensors by name, and its attribute
    `metrics` has names of numbers. One that has neither exchanges the model alone.

    Args:
        training: what clients do.
        model: of the run.

    Attributes:
        first: the values before any round, (size,).

    Raises:
        ArgumentError: it states something else.
    """

    def __init__(self, training: Any, model: nn.Module) -> None:
        stated = training.extra(model) if hasattr(training, "extra") else {}
        names = getattr(training, "metrics", ())
        if not isinstance(stated, Mapping) or not isinstance(names, Sequence | set | frozenset):
            rule = "with extra(model), tensors by name, and names as metrics"
            raise ArgumentError("train", training, rule, code="type")
        tensors = {name: torch.as_tensor(value).detach().float() for name, value in stated.items()}
        tensors |= {f"{METRIC}{name}": torch.zeros(()) for name in names}
        self._shapes = {name: tensor.shape for name, tensor in tensors.items()}
        self.first: Weights = _row(tensors)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of tensors, and those of metrics after `METRIC`."""
        return tuple(self._shapes)

    def named(self, row: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
        """Returns the values beside the model, (size,), by name and in their shapes."""
        ends = np.cumsum([shape.numel() for shape in self._shapes.values()], dtype=np.int64)
        parts = zip(self._shapes.items(), np.split(row, ends), strict=False)  # after the last: none
        return {name: part.reshape(shape) for (name, shape), part in parts}

    def split(self, row: Weights) -> tuple[Weights, dict[str, Tensor]]:
        """Returns the values of the model, and the tensors beside it, by name."""
        weights, beside = np.split(row, [row.size - self.first.size])
        return weights, {k: torch.from_numpy(v.copy()) for k, v in self.named(beside).items()}

    def join(
        self, weights: Weights, received: Mapping[str, Tensor], result: ClientResult
    ) -> Weights:
        """Returns the model's values and those beside it after a client's training.

        Args:
            weights: of the model.
            received: what the client had, and keeps of a tensor that it does not return.
            result: what its training returned.

        Raises:
            UpdateError: a name that was not stated, a metric that is missing, or another shape.
        """
        found = {name: torch.as_tensor(value).detach() for name, value in result.extra.items()}
        found |= {f"{METRIC}{k}": torch.as_tensor(float(v)) for k, v in result.metrics.items()}
        needed = {name for name in self._shapes if name.startswith(METRIC)}
        if wrong := (set(found) - set(self._shapes)) | (needed - set(found)):
            raise UpdateError(f"training did not return what it states: {', '.join(sorted(wrong))}")
        every = {name: found.get(name, received[name]).float().cpu() for name in self._shapes}
        if wrong := {k for k, v in every.items() if v.shape != self._shapes[k]}:
            raise UpdateError(f"training returned another shape: {', '.join(sorted(wrong))}")
        return np.concatenate([weights, _row(every)])


def _row(tensors: Mapping[str, Tensor]) -> Weights:
    parts = [tensor.reshape(-1).cpu() for tensor in tensors.values()]
    row: Weights = torch.cat([torch.zeros(0), *parts]).numpy()
    return row
