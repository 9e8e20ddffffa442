"""A network in the making: each stage fits what stands before it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Self

from extensions.errors import ArgumentError
from extensions.layers.activations import PiecewiseLinear
from extensions.layers.stages.branches import places
from extensions.layers.stages.grid import Grid, Pair, Window
from extensions.layers.stages.pooling import AveragePool, MaxPool
from extensions.layers.stages.stage import Activation, Reorder, Stage
from extensions.layers.stages.trained import Convolution, Linear

Sizes = int | Pair
Padding = Sizes | tuple[Pair, Pair]
Pick = tuple[bool, bool]
"""Whether a layer's weight is trained, and whether it has a bias that is."""
WHOLE: Pick = (True, True)


Branch = Callable[["NetworkBuilder"], object]
"""Adds the stages of a branch to a sketch."""


class NetworkBuilder:
    """Stages from an input on; every method adds one and returns the sketch.

    It begins with the grid of images, or the number of values of a row. `grid` is that of the
    images that the stages return so far; None where they return rows that are no images.
    """

    def __init__(self, given: Grid | int) -> None:
        self.grid = given if isinstance(given, Grid) else None
        self.size = given.size if isinstance(given, Grid) else given
        self.stages: list[Stage] = []

    def convolution(
        self,
        channels: int,
        kernel: Sizes,
        *,
        stride: Sizes = 1,
        padding: Padding = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        trained: Pick = WHOLE,
    ) -> Self:
        """Adds a convolution; sizes are (down, across), or one for both."""
        window = self._window(kernel, stride, padding, dilation)
        weights, biases = trained
        self._add(Convolution(window, channels, groups, biases, weights))
        self.grid = window.after(channels)
        return self

    def average(self, kernel: Sizes, *, stride: Sizes | None = None, padding: Padding = 0) -> Self:
        """Adds the mean over windows; by default they do not overlap."""
        window = self._window(kernel, kernel if stride is None else stride, padding, 1)
        self._add(AveragePool(window))
        self.grid = window.after(window.grid.channels)
        return self

    def largest(
        self,
        kernel: Sizes,
        *,
        stride: Sizes | None = None,
        padding: Padding = 0,
        dilation: Sizes = 1,
    ) -> Self:
        """Adds the largest value of windows; by default they do not overlap."""
        window = self._window(kernel, kernel if stride is None else stride, padding, dilation)
        if (window.places < 0).all(axis=2).any():
            allowed = f"less than the kernel, {window.kernel}"
            raise ArgumentError("padding", padding, allowed, code="range")
        self._add(MaxPool(window))
        self.grid = window.after(window.grid.channels)
        return self

    def activation(self, function: PiecewiseLinear) -> Self:
        """Adds a function of each value."""
        self._add(Activation(function, self.size))
        return self

    def flatten(self, *, channels_last: bool) -> Self:
        """Takes images for rows, in the order of Keras, or of PyTorch, whose channels are first."""
        grid = self.grid
        if grid is not None and grid.channels_last != channels_last:
            self._add(Reorder.between(grid, replace(grid, channels_last=channels_last)))
        self.grid = None
        return self

    def linear(self, outputs: int, *, trained: Pick = WHOLE) -> Self:
        """Adds a linear layer; images before it are taken in the order that they have."""
        weights, biases = trained
        self._add(Linear(self.size, outputs, biases, weights))
        self.grid = None
        return self

    def add_branches(self, first: Branch, second: Branch) -> Self:
        """Adds two branches, whose results are added; either is given a sketch to go on with."""
        branches = [NetworkBuilder(self.grid or self.size) for _ in range(2)]
        for sketch, branch in zip(branches, (first, second), strict=True):
            branch(sketch)
        one, other = branches
        if (one.size, one.grid) != (other.size, other.grid):
            raise ArgumentError(
                "stages",
                f"branches of {one.size} values, {one.grid}, and {other.size}, {other.grid}",
                "branches that return equally many values, and images alike",
                code="shape",
            )
        fork, turn, join = places(self.size, one.size)
        for stage in (fork, *one.stages, turn, *other.stages, join):
            self._add(stage)
        self.grid = one.grid
        return self

    def _add(self, stage: Stage) -> None:
        self.stages.append(stage)
        self.size = stage.outputs

    def _window(self, kernel: Sizes, stride: Sizes, padding: Padding, dilation: Sizes) -> Window:
        if self.grid is None:
            allowed = "images where a window is to be taken"
            raise ArgumentError("stages", f"rows of {self.size} values", allowed, code="shape")
        down, across = padding if isinstance(padding, tuple) else (padding, padding)
        return Window(
            grid=self.grid,
            kernel=pair(kernel),
            stride=pair(stride),
            padding=(pair(down), pair(across)),
            dilation=pair(dilation),
        )


def pair(sizes: Sizes) -> Pair:
    """Returns sizes (down, across), of one for both too."""
    return sizes if isinstance(sizes, tuple) else (sizes, sizes)
