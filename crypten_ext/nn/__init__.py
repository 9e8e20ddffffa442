"""Layers, losses and the secure DPSGD optimizer of CrypTen programs."""

from crypten_ext.nn.layers import (
    LOSSES,
    BCEWithLogitsLoss,
    CrossEntropyLoss,
    Linear,
    Loss,
    ReLU,
    Sequential,
    Sigmoid,
)

__all__ = [
    "LOSSES",
    "BCEWithLogitsLoss",
    "CrossEntropyLoss",
    "Linear",
    "Loss",
    "ReLU",
    "Sequential",
    "Sigmoid",
]
