"""Images as rows, and the windows of a convolution or of pooling over them, as public places."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from extensions.errors import ArgumentError
from extensions.ring.fixed_point import Integers
from extensions.ring.interface import Ring, Share

OUTSIDE = -1
"""The place of a value that padding adds, which is 0 (`Ring.gather`)."""

Pair = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Grid:
    """How the values of an image lie in a row; a signal is an image of height 1.

    The channels of a point are beside each other (`channels_last`, as in Keras and in files of
    images), or each channel is a block (as in PyTorch).
    """

    channels: int
    height: int
    width: int
    channels_last: bool = True

    def __post_init__(self) -> None:
        sizes = self.channels, self.height, self.width
        if min(sizes) < 1:
            allowed = "(channels, height, width), each at least 1"
            raise ArgumentError("image", sizes, allowed, code="range")

    @classmethod
    def square(cls, features: int, *, model: str) -> "Grid":
        """Returns the grid of square images with one channel or three, the channels last."""
        for channels in (1, 3):
            side = math.isqrt(features // channels)
            if features and channels * side * side == features:
                return cls(channels=channels, height=side, width=side)
        raise ArgumentError(
            "model",
            model,
            f"'logistic' or 'mlp:H' for records of {features} features",
            "Convolutions take square images, grey or in colour, as {features=raw} leaves them.",
        )

    @property
    def size(self) -> int:
        """Values of an image."""
        return self.channels * self.height * self.width

    @cached_property
    def places(self) -> Integers:
        """The place in a row of each value, (channels, height, width)."""
        order = np.arange(self.size, dtype=np.int64)
        if self.channels_last:
            return order.reshape(self.height, self.width, self.channels).transpose(2, 0, 1)
        return order.reshape(self.channels, self.height, self.width)


@dataclass(frozen=True, kw_only=True)
class Window:
    """The windows that are taken of an image: its positions, and what each of them holds.

    Padding is points of zeros around the image, (above, below) and (left, right), and dilation the
    steps between the points of one window.
    """

    grid: Grid
    kernel: Pair
    stride: Pair = (1, 1)
    padding: tuple[Pair, Pair] = ((0, 0), (0, 0))
    dilation: Pair = (1, 1)

    def __post_init__(self) -> None:
        for name, least in (("kernel", 1), ("stride", 1), ("dilation", 1), ("padding", 0)):
            value: Any = getattr(self, name)
            if np.shape(value) not in ((2,), (2, 2)) or np.min(value) < least:
                allowed = f"two numbers, each at least {least}"
                raise ArgumentError(name, value, allowed, code="range")
        if min(self.shape) < 1:
            allowed = f"within the image of {self.grid.height} x {self.grid.width} and its padding"
            advice = "Images may have their channels in another place than the layer expects."
            raise ArgumentError("kernel", self.kernel, allowed, advice, code="range")

    @cached_property
    def shape(self) -> Pair:
        """Positions down and across."""
        sizes = self.grid.height, self.grid.width
        down, across = (
            (size + sum(pad) - dilation * (kernel - 1) - 1) // stride + 1
            for size, pad, dilation, kernel, stride in zip(
                sizes, self.padding, self.dilation, self.kernel, self.stride, strict=True
            )
        )
        return down, across

    @property
    def positions(self) -> int:
        """Number of windows."""
        return math.prod(self.shape)

    @property
    def points(self) -> int:
        """Points of a window."""
        return math.prod(self.kernel)

    @property
    def values(self) -> int:
        """What all windows hold together."""
        return self.positions * self.points * self.grid.channels

    @cached_property
    def places(self) -> Integers:
        """The places in a row of what windows hold, (positions, channels, points)."""
        (above, below), (left, right) = self.padding
        padded = np.pad(
            self.grid.places, ((0, 0), (above, below), (left, right)), constant_values=OUTSIDE
        )
        rows, columns = (
            np.arange(size)[:, None] * stride + np.arange(kernel) * dilation
            for size, stride, kernel, dilation in zip(
                self.shape, self.stride, self.kernel, self.dilation, strict=True
            )
        )
        found = padded[:, rows[:, None, :, None], columns[None, :, None, :]]
        channels = self.grid.channels
        by_position = found.reshape(channels, self.positions, self.points).transpose(1, 0, 2)
        return np.ascontiguousarray(by_position)

    @cached_property
    def overlap(self) -> int:
        """The largest number of windows that one value is in: at most the points of a window.

        It bounds the unfolded image U by |U|_F^2 <= overlap |a|^2. With a stride it is less than
        the number of points, and with a dilation not what kernel and stride alone would say.
        """
        inside = self.places[self.places != OUTSIDE]
        return int(np.bincount(inside, minlength=1).max(initial=1))

    def after(self, channels: int) -> Grid:
        """Returns the grid of one value for each position and channel; the channels are last."""
        height, width = self.shape
        return Grid(channels=channels, height=height, width=width)


def folded(places: Integers, size: int) -> Integers:
    """Returns, for each of `size` places, where in `places` it stands, (size, most); else OUTSIDE.

    So `ring.gather(y, folded(places, size)).sum(-1)` is the adjoint of `ring.gather(x, places)`.
    """
    flat = places.reshape(-1)
    order = np.argsort(flat, kind="stable")
    order = order[np.searchsorted(flat[order], 0) :]
    counts = np.bincount(flat[order], minlength=size)
    starts = np.cumsum(counts) - counts
    found = np.full((size, max(1, int(counts.max(initial=0)))), OUTSIDE, dtype=np.int64)
    found[flat[order], np.arange(len(order)) - starts[flat[order]]] = order
    return found


def fold(ring: Ring, values: Share, places: Integers, size: int) -> Share:
    """Returns, for each place of a row, the sum of the values that came from it; local.

    Values are (rows, ...), as `Ring.gather` returned them; the sums are (rows, size).
    """
    rows = values.shape[0]
    found = ring.gather(values.reshape(rows, places.size), folded(places, size))
    return found.sum(-1)
