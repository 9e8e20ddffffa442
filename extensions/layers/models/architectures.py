"""Convolutional networks by name."""

from collections.abc import Callable, Sequence

from extensions.errors import ArgumentError
from extensions.layers.activations import tanh
from extensions.layers.builder import NetworkBuilder
from extensions.layers.stages.grid import Grid
from extensions.layers.stages.stage import Stage

Architecture = Callable[[int, int], Sequence[Stage]]
"""Given the features of a record and the number of outputs, returns the stages between them."""

SMALLEST, LARGEST = 16, 512


def lenet(features: int, outputs: int) -> list[Stage]:
    """Returns LeNet-5, with tanh and averages.

    Source:
        LeCun, Bottou, Bengio and Haffner, "Gradient-based learning applied to document
        recognition", Proceedings of the IEEE 86 (1998), figure 2.

    Deviation:
        The second convolution sees all channels, and averages have no weights; images below 32 x 32
        are padded by 2 points, as those of MNIST were.
    """
    grid = _grid("lenet", features)
    sketch = NetworkBuilder(grid)
    sketch.convolution(6, 5, padding=2 if grid.height < 32 else 0).activation(tanh()).average(2)
    sketch.convolution(16, 5).activation(tanh()).average(2)
    sketch.linear(120).activation(tanh()).linear(84).activation(tanh()).linear(outputs)
    return sketch.stages


def cnn(features: int, outputs: int) -> list[Stage]:
    """Returns the network of four layers with tanh that is usual for private training.

    Source:
        Papernot, Thakurta, Song, Chien and Erlingsson, "Tempered sigmoid activations for deep
        learning with differential privacy", AAAI 2021, table 1.
    """
    sketch = NetworkBuilder(_grid("cnn", features))
    sketch.convolution(16, 8, stride=2, padding=3).activation(tanh()).largest(2, stride=1)
    sketch.convolution(32, 4, stride=2).activation(tanh()).largest(2, stride=1)
    sketch.linear(32).activation(tanh()).linear(outputs)
    return sketch.stages


ARCHITECTURES: dict[str, Architecture] = {"lenet": lenet, "cnn": cnn}


def _grid(model: str, features: int) -> Grid:
    grid = Grid.square(features, model=model)
    if grid.height < SMALLEST:
        allowed = f"'logistic' or 'mlp:H' for images of {grid.height} x {grid.width}"
        advice = f"Its windows need images of {SMALLEST} x {SMALLEST} at least."
        raise ArgumentError("model", model, allowed, advice)
    if grid.height > LARGEST:
        allowed = f"a list of layers for images of {grid.height} x {grid.width}"
        raise ArgumentError("model", model, allowed, f"Images have at most {LARGEST} x {LARGEST}.")
    return grid
