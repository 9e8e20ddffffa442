"""What is told of every round as it ends: a bar, a table, TensorBoard, or the user's own."""

from collections.abc import Callable

from torch import nn

from fl.training.history import History

Callback = Callable[[History, nn.Module], None]
"""Called after each round with all rounds so far and the present model; it changes neither."""
