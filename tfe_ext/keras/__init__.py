"""Private training of TF Encrypted's Keras layers on ABY3."""

from .checkpoints import Checkpoints
from .losses import BinaryCrossentropy, CategoricalCrossentropy
from .optimizers import DPSGD, SGD
from .sequential import Sequential

__all__ = [
    "DPSGD",
    "SGD",
    "BinaryCrossentropy",
    "CategoricalCrossentropy",
    "Checkpoints",
    "Sequential",
]
