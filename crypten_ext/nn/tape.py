"""What one backward pass leaves for the optimizer: each layer's inputs and deltas, no gradients."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from extensions.errors import GradientError


@dataclass(frozen=True)
class PublicBatch:
    """Public facts about a batch, carried by its encrypted tensors.

    Attributes:
        feature_norm: bound of the Euclidean norm of a row.
        expected_size: sample_rate times the number of records of all parties, or None.
        sample_rate: Poisson rate that drew it, or None.
        overflow_probability: of this one batch.
    """

    feature_norm: float
    expected_size: float | None = None
    sample_rate: float | None = None
    overflow_probability: float = 0.0


@dataclass(frozen=True)
class SharedBatch:
    """Shares that owners supply with a batch: exact squared norms (2f bits) and padding flags."""

    squared_norms: torch.Tensor
    padding: torch.Tensor


@dataclass(frozen=True)
class Recorded:
    """One linear layer's part of a backward pass."""

    inputs: Any
    weight: Any
    bias: Any
    deltas: torch.Tensor


@dataclass(frozen=True)
class SummedLoss:
    """What a private step has to know of a loss that is a sum over examples.

    Attributes:
        delta_norm: bound of ||delta_j|| at the model's output.
        padding: shares of the padding flags of the targets, or None.
    """

    delta_norm: float
    padding: torch.Tensor | None


class Tape:
    """Records one backward pass of one model and refuses to be read twice."""

    def __init__(self) -> None:
        self._records: list[Recorded] = []
        self._flowing: SummedLoss | None = None
        self._loss: SummedLoss | None = None
        self._used = False

    def clear(self) -> None:
        """The next backward pass starts afresh."""
        self._records, self._loss, self._used = [], None, False

    @contextmanager
    def begin(self, loss: SummedLoss) -> Iterator[None]:
        """While the block runs, the gradients that arrive are those of this loss."""
        self._flowing = loss
        try:
            yield
        finally:
            self._flowing = None

    def record(self, inputs: Any, weight: Any, bias: Any, deltas: torch.Tensor) -> None:
        """Keeps one layer's part; the layers arrive from the output to the input.

        Raises:
            GradientError: the loss is not a sum over examples, or the layer was recorded already.
        """
        if self._flowing is None:
            raise GradientError(
                "The gradient did not come from a sum-reduced loss of crypten_ext.nn: a mean "
                "divides by the batch size before clipping, which breaks the bound of every "
                "example's gradient. Use crypten_ext.nn.BCEWithLogitsLoss()."
            )
        if self._used:
            raise GradientError(
                "backward() ran after step() without zero_grad() in between. Call "
                "optimizer.zero_grad() before each backward pass."
            )
        if any(r.weight is weight for r in self._records):
            raise GradientError(
                "A layer received two gradients before step(): backward() ran twice, or the layer "
                "is used twice. Call optimizer.zero_grad() before each backward pass and step() "
                "after it; sharing a layer is not supported."
            )
        self._loss = self._flowing
        self._records.append(Recorded(inputs, weight, bias, deltas))

    def take(self) -> tuple[list[Recorded], SummedLoss]:
        """Returns the records from input to output, once.

        Raises:
            GradientError: there are none, or they were taken already.
        """
        if self._used:
            raise GradientError(
                "step() was called twice for one backward pass: gradients may be used once, or the "
                "privacy accounting is wrong. Call zero_grad() and backward() again."
            )
        if not self._records or self._loss is None:
            raise GradientError("step() was called without backward(): there is no gradient.")
        self._used = True
        records, self._records = self._records[::-1], []
        return records, self._loss
