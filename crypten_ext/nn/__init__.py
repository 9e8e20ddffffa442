"""Layers, losses and the secure DPSGD optimizer of CrypTen programs."""

from crypten_ext.nn.layers import Linear, ReLU, Sigmoid, Tanh
from crypten_ext.nn.losses import LOSSES, BCEWithLogitsLoss, CrossEntropyLoss, Loss

from crypten.nn import Sequential

__all__ = [
    "LOSSES",
    "BCEWithLogitsLoss",
    "CrossEntropyLoss",
    "Linear",
    "Loss",
    "ReLU",
    "Sequential",
    "Sigmoid",
    "Tanh",
]
