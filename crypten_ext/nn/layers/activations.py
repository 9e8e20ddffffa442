"""Activations of scripts, as piecewise-linear functions (`extensions.network.activations`)."""

from typing import Any

from crypten_ext.nn.layers.applying import apply_activation
from extensions.network import activations

import crypten
from crypten.mpc import MPCTensor


class ReLU(crypten.nn.ReLU):
    """min(max(x, 0), max_value); the cap bounds what rounding can add to a clipped gradient.

    Args:
        max_value: in (0, 64].

    Cost:
        4 rounds forward, 1 backward.
    """

    max_value = 8.0

    def __init__(self, max_value: float = 8.0) -> None:
        super().__init__()
        self.max_value = activations.relu(max_value).bound

    def forward(self, x: MPCTensor) -> MPCTensor:
        return apply_activation(x, activations.relu(self.max_value))


class Sigmoid(crypten.nn.Sigmoid):
    """A five-piece sigmoid, within 0.011 of 1 / (1 + exp(-x)).

    Cost:
        5 rounds forward, 2 backward (CrypTen's own: 58 with three parties).
    """

    def forward(self, x: MPCTensor) -> MPCTensor:
        return apply_activation(x, activations.sigmoid())


class Tanh(crypten.nn.Module):
    """A five-piece tanh, within 0.022 of it; CrypTen has no module of that name.

    `crypten.nn.from_pytorch` makes one of `torch.nn.Tanh` while this project is enabled.

    Cost:
        5 rounds forward, 2 backward.
    """

    def forward(self, x: MPCTensor) -> MPCTensor:
        return apply_activation(x, activations.tanh())

    @staticmethod
    def from_onnx(attributes: Any = None) -> "Tanh":
        """Returns the module of a converted model, which has no attributes."""
        return Tanh()
