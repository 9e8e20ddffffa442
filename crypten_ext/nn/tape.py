"""What one backward pass leaves for the optimizer: each layer's inputs and deltas, no gradients."""

from dataclasses import dataclass

import torch

from crypten_ext.nn.provenance import LinearUse, Provenance
from crypten_ext.ring.crypten_ring import CrypTenRing
from extensions.errors import GradientError
from extensions.network.activations import activation_gradient
from extensions.network.layers import backpropagate


@dataclass(frozen=True, kw_only=True)
class BackwardPass:
    """What a private step has to know of one backward pass.

    Attributes:
        origin: of the model's output.
        deltas: shares of the gradient at each linear layer's output, from input to output.
        delta_norm: bound of ||delta_j|| at the model's output.
    """

    origin: Provenance
    deltas: list[torch.Tensor]
    delta_norm: float


def backward(
    ring: CrypTenRing, origin: Provenance, deltas: torch.Tensor, delta_norm: float
) -> BackwardPass:
    """Returns the gradients of a sum over examples at the output of every linear layer.

    They follow the layers that made the output, and nothing else that a script computed.

    Args:
        ring: that of the output.
        origin: of the output.
        deltas: shares of the gradient at the output, (rows, outputs).
        delta_norm: bound of the norm of a row of it.

    Cost:
        2 rounds for each linear layer but the first, and those of the activations between.
    """
    first = next(i for i, use in enumerate(origin.uses) if isinstance(use, LinearUse))
    found: list[torch.Tensor] = []
    for i in range(len(origin.uses) - 1, first - 1, -1):
        use = origin.uses[i]
        if not isinstance(use, LinearUse):
            deltas = activation_gradient(ring, deltas, use.slope, use.function)
            continue
        found.insert(0, deltas)
        if i > first:
            deltas = backpropagate(ring, deltas, use.weight.share)
    return BackwardPass(origin=origin, deltas=found, delta_norm=delta_norm)


class Tape:
    """Records one backward pass of one model and refuses to be read twice."""

    def __init__(self) -> None:
        self._recorded: BackwardPass | None = None
        self._used = False

    def clear(self) -> None:
        """The next backward pass starts afresh."""
        self._recorded, self._used = None, False

    def record(self, recorded: BackwardPass) -> None:
        """Keeps the backward pass.

        Raises:
            GradientError: there is one already.
        """
        if self._used:
            raise GradientError(
                "backward() ran after step() without zero_grad() in between. Call "
                "optimizer.zero_grad() before each backward pass."
            )
        if self._recorded is not None:
            raise GradientError(
                "The model received two gradients before step(): backward() ran twice. Call "
                "optimizer.zero_grad() before each backward pass and step() after it."
            )
        self._recorded = recorded

    def take(self) -> BackwardPass:
        """Returns the backward pass, once.

        Raises:
            GradientError: there is none, or it was taken already.
        """
        if self._used:
            raise GradientError(
                "step() was called twice for one backward pass: gradients may be used once, or the "
                "privacy accounting is wrong. Call zero_grad() and backward() again."
            )
        if self._recorded is None:
            raise GradientError("step() was called without backward(): there is no gradient.")
        recorded, self._recorded, self._used = self._recorded, None, True
        return recorded
