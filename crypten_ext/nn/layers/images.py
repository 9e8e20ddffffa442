"""Convolutions and pooling of scripts: images have their channels first, as in PyTorch."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from crypten_ext.nn.layers.applying import (
    Recording,
    Stages,
    apply_stages,
    apply_trained,
    apply_untrained,
    check_enabled,
    check_precision,
    is_training,
    needs_host,
)
from crypten_ext.nn.provenance import are_trained
from extensions.errors import ArgumentError
from extensions.layers.builder import NetworkBuilder
from extensions.layers.stages.grid import Grid, Pair

import crypten
from crypten.mpc import MPCTensor

Host = Callable[[], MPCTensor]
Found = tuple[Stages, Sequence[int]]
"""Stages, and the shape of a record that they return."""

_KEPT = 64


class Conv2d(Recording, crypten.nn.Conv2d):
    """A convolution of images, trained privately once an optimizer adopts it.

    Args and parameters are those of `crypten.nn.Conv2d`: weight (out_channels, in_channels /
    groups, height, width) and bias (out_channels,). Inputs are (rows, channels, height, width).

    Cost:
        2 rounds forward, and 2 backward where a layer before it is trained.
    """

    def forward(self, x: MPCTensor) -> MPCTensor:
        own = getattr(self, "bias", None)
        return _convolve(self, x, self.weight, own, lambda: super(Conv2d, self).forward(x))


class Conv1d(Recording, crypten.nn.Conv1d):
    """A convolution of signals, (rows, channels, length); see `Conv2d`."""

    def forward(self, x: MPCTensor) -> MPCTensor:
        own = getattr(self, "bias", None)
        return _convolve(self, x, self.weight, own, lambda: super(Conv1d, self).forward(x))


class Conv(Recording, crypten.nn.module.Conv):
    """The convolution of a converted model: without state, its inputs are (x, weight, bias)."""

    def forward(self, x: list[MPCTensor]) -> MPCTensor:
        images, weight, *rest = x
        bias = rest[0] if rest else None
        return _convolve(self, images, weight, bias, lambda: super(Conv, self).forward(x))


class AvgPool2d(crypten.nn.AvgPool2d):
    """The mean over windows, zeros of the padding included.

    Cost:
        One truncation forward, and one backward.
    """

    def forward(self, x: MPCTensor) -> MPCTensor:
        return _pool(self, x, "average", lambda: super(AvgPool2d, self).forward(x))


class MaxPool2d(crypten.nn.MaxPool2d):
    """The largest value of windows, and nobody learns which it was; padding never is.

    Cost:
        The rounds of a selection for each halving of a window's points.
    """

    def forward(self, x: MPCTensor) -> MPCTensor:
        return _pool(self, x, "largest", lambda: super(MaxPool2d, self).forward(x))


class GlobalAveragePool(crypten.nn.GlobalAveragePool):
    """The mean over each channel, as `torch.nn.AdaptiveAvgPool2d(1)` in a converted model."""

    def forward(self, x: MPCTensor) -> MPCTensor:
        check_images(x, None)
        stages, shape = pooling("average", _image(x), _image(x)[1:], _image(x)[1:], (0, 0))
        return apply_stages(x, stages, shape, lambda: super(GlobalAveragePool, self).forward(x))


def check_images(x: Any, channels: int | None, dims: int = 4) -> None:
    """Raises ArgumentError unless x has the shape of images, or signals, with so many channels."""
    if x.dim() == dims and channels in (None, x.size(1)):
        return
    sizes = ("height", "width") if dims == 4 else ("length",)
    raise ArgumentError(
        "x",
        tuple(x.size()),
        f"({', '.join(('rows', 'channels' if channels is None else str(channels), *sizes))})",
        "CrypTen's images have their channels first. Transpose images before you share them, and "
        "give poisson_batches images instead of vectors.",
        code="shape",
    )


@lru_cache(_KEPT)
def convolution(
    image: tuple[int, int, int],
    weight: tuple[int, ...],
    stride: Pair,
    padding: Pair,
    dilation: Pair,
    groups: int,
    trained: tuple[bool, bool],
) -> Found:
    """Returns the stages of a convolution; errors are those of `NetworkBuilder`.

    `image` is channels, height and width; `weight` its shape, with one or two kernel sizes;
    `trained` whether the weight is, and whether there is a bias that is.
    """
    sketch = NetworkBuilder(_grid(image)).convolution(
        weight[0],
        _pair("kernel", weight[2:], len(weight)),
        stride=stride,
        padding=padding,
        dilation=dilation,
        groups=groups,
        trained=trained,
    )
    shape = _sizes(sketch)[:: 1 if len(weight) == 4 else 2]
    return sketch.flatten(channels_last=False).stages, shape


@lru_cache(_KEPT)
def pooling(
    kind: str, image: tuple[int, int, int], kernel: Pair, stride: Pair, padding: Pair
) -> Found:
    """Returns the stages of "average" or "largest" pooling; raises as `NetworkBuilder` does."""
    sketch = NetworkBuilder(_grid(image))
    getattr(sketch, kind)(kernel, stride=stride, padding=padding)
    shape = _sizes(sketch)
    return sketch.flatten(channels_last=False).stages, shape


def _convolve(layer: Any, x: Any, weight: Any, bias: Any, host: Host) -> MPCTensor:
    check_enabled()
    check_precision(x, weight, bias)
    dims = weight.dim()
    check_images(x, weight.size(1) * layer.groups, dims)
    stages, shape = convolution(
        _image(x),
        tuple(weight.size()),
        _pair("stride", layer.stride, dims),
        _pair("padding", layer.padding, dims, 0),
        _pair("dilation", layer.dilation, dims),
        layer.groups,
        are_trained(weight, bias),
    )
    if is_training(layer):
        return apply_trained(layer, x, weight, bias, stages, shape)
    if needs_host(x, weight, bias):
        return host()
    return apply_untrained(x, weight, bias, stages, shape)


def _pool(layer: Any, x: Any, kind: str, host: Host) -> MPCTensor:
    check_enabled()
    check_images(x, None)
    kernel = _pair("kernel_size", layer.kernel_size, 4)
    stride = kernel if layer.stride is None else _pair("stride", layer.stride, 4)
    padding = _pair("padding", layer.padding, 4)
    stages, shape = pooling(kind, _image(x), kernel, stride, padding)
    return apply_stages(x, stages, shape, host)


def _image(x: Any) -> tuple[int, int, int]:
    """Returns channels, height and width of images; signals have height 1."""
    channels, *sizes = tuple(x.size())[1:]
    height, width = sizes if len(sizes) == 2 else (1, *sizes)
    return channels, height, width


def _grid(image: tuple[int, int, int]) -> Grid:
    channels, height, width = image
    return Grid(channels=channels, height=height, width=width, channels_last=False)


def _sizes(sketch: NetworkBuilder) -> tuple[int, int, int]:
    grid = sketch.grid
    if grid is None:
        raise TypeError("the stages return no images")
    return grid.channels, grid.height, grid.width


def _pair(name: str, value: Any, dims: int, flat: int = 1) -> Pair:
    """Returns sizes down and across; those of a signal, which has 3 dims, are `flat` down."""
    sizes = list(value) if isinstance(value, list | tuple) else [value] * (dims - 2)
    if len(sizes) != dims - 2 or not all(isinstance(size, int) for size in sizes):
        raise ArgumentError(name, value, "whole numbers, one for each direction", code="type")
    across = sizes[-1]
    return (flat if dims == 3 else sizes[0]), across
