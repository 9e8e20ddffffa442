"""Models of one's own as a list of layers: data that parties compare and files hold, never code.

``layers:[["convolution", {"channels": 8, "kernel": 5}], ["activation", {"function": "tanh"}]]`` is
such a list. Its entries are the methods of `Layers`, and the layer that gives the outputs follows
by itself. A function of the user's, ``module:function``, makes one: it is called with a `Layers`,
on the host where it was named alone, before anything is known of records.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from math import prod
from typing import Any, Self

from extensions.errors import ArgumentError
from extensions.layers.activations import PiecewiseLinear, relu, sigmoid, tanh
from extensions.layers.builder import NetworkBuilder, pair
from extensions.layers.stages.grid import Grid
from extensions.layers.stages.stage import Stage
from extensions.user_functions import user_function

PREFIX = "layers:"
Entries = list[tuple[str, dict[str, Any]]]
"""Names of methods of `Layers`, and what they are given."""
ACTIVATIONS: Mapping[str, Callable[[], PiecewiseLinear]] = {
    "relu": relu,
    "sigmoid": sigmoid,
    "tanh": tanh,
}
_OF_IMAGES = ("convolution", "average", "largest")
_MOST_LAYERS, _LARGEST = 64, 4096
_MOST_VALUES, _MOST_WEIGHTS = 1 << 24, 1 << 26
"""Of a record, padded, in windows and behind layers; and of weights: in all layers together."""


class Layers:
    """A list of layers in the making; every method adds one and returns the list.

    Sizes are whole numbers, or (down, across). A list that begins with a convolution or with
    pooling takes square images, grey or in colour; any other one takes rows.

    Attributes:
        entries: so far, as JSON has them.
    """

    def __init__(self) -> None:
        self.entries: Entries = []

    def convolution(
        self,
        channels: int,
        kernel: Any,
        *,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Self:
        """Adds a convolution with biases."""
        return self._add("convolution", locals())

    def average(self, kernel: Any, *, stride: Any = None, padding: Any = 0) -> Self:
        """Adds the mean over windows; by default they do not overlap."""
        return self._add("average", locals())

    def largest(
        self, kernel: Any, *, stride: Any = None, padding: Any = 0, dilation: Any = 1
    ) -> Self:
        """Adds the largest value of windows; by default they do not overlap."""
        return self._add("largest", locals())

    def activation(self, function: str) -> Self:
        """Adds a function of each value: relu (at most 8), sigmoid or tanh."""
        return self._add("activation", locals())

    def linear(self, outputs: int) -> Self:
        """Adds a linear layer with biases."""
        return self._add("linear", locals())

    def residual(self, branch: Callable[[Layers], object]) -> Self:
        """Adds what comes to here and what a branch makes of it: as many values.

        `branch` adds its layers to the list that it is given.
        """
        inner = Layers()
        branch(inner)
        self.entries.append((_RESIDUAL, {"layers": inner.entries}))
        return self

    def _add(self, name: str, given: Mapping[str, Any]) -> Self:
        defaults = inspect.signature(getattr(Layers, name)).parameters
        kept = {k: v for k, v in given.items() if k != "self" and v != defaults[k].default}
        self.entries.append((name, kept))
        return self

    def text(self) -> str:
        """Returns the list as the name of a model."""
        try:
            return PREFIX + json.dumps(self.entries, separators=(",", ":"))
        except TypeError as error:
            allowed, given = "of numbers and names", "a list of layers"
            raise ArgumentError("model", given, allowed, f"{error}", code="type") from error


def is_custom(text: str) -> bool:
    """Whether a model is ``module:function``, which `named` imports and calls."""
    return bool(text.partition(":")[2]) and not text.startswith((PREFIX, "mlp:", "lora:"))


def named(text: str) -> str:
    """Returns the name of a model: that of ``module:function`` is the list that it makes.

    The module is looked for as Python does, and in the current folder.
    """
    if not is_custom(text):
        return text
    layers = Layers()
    user_function("model", text)(layers)
    if not layers.entries:
        allowed = "module:function, where function(layers) calls methods of its argument"
        raise ArgumentError("model", text, allowed, "It has added no layer.")
    made = layers.text()
    checked(made)
    return made


@lru_cache(maxsize=64)
def checked(text: str) -> tuple[tuple[str, dict[str, Any]], ...]:
    """Returns the entries of a list that a stranger may have written.

    Raises ArgumentError if there are more than 64 layers, or larger ones than 4096.
    """
    try:
        again = _checked(json.loads(text.removeprefix(PREFIX)))
        if _count(again) > _MOST_LAYERS:
            raise ValueError(f"more than {_MOST_LAYERS} layers")
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ArgumentError("model", text, "a list of layers", f"{error}.") from error
    return tuple(again)


_METHODS = ("convolution", "average", "largest", "activation", "linear")
_RESIDUAL = "residual"


def _checked(entries: Any) -> Entries:
    if not isinstance(entries, list) or not entries:
        raise ValueError("not one layer or more")
    again = Layers()
    for name, values in entries:
        if name == _RESIDUAL:
            (inner,) = values.values()
            again.entries.append((name, {"layers": _checked(inner)}))
            continue
        if name not in _METHODS:
            raise ValueError(f"no layer {name!r}: there are {', '.join((*_METHODS, _RESIDUAL))}")
        getattr(again, name)(**values)
        for key, value in again.entries[-1][1].items():
            _check(key, value)
    return again.entries


def _count(entries: Entries) -> int:
    inner = (values["layers"] for name, values in entries if name == _RESIDUAL)
    return len(entries) + sum(map(_count, inner))


def _check(key: str, value: Any) -> None:
    if key == "function":
        if value not in ACTIVATIONS:
            raise ValueError(f"function = {value!r} must be one of {', '.join(ACTIVATIONS)}")
    else:
        sizes = value if isinstance(value, list | tuple) else [value]
        if len(sizes) > 2:
            raise ValueError(f"{key} = {value!r} is more than (down, across)")
        for size in sizes:
            if type(size) is not int or not 0 <= size <= _LARGEST:
                raise ValueError(f"{key} = {value!r} must be whole numbers in 0..{_LARGEST}")


def takes_images(text: str) -> bool:
    """Whether a list begins with windows of images."""
    name, values = checked(text)[0]
    while name == _RESIDUAL:
        name, values = values["layers"][0]
    return name in _OF_IMAGES


def stages_of(text: str, features: int, outputs: int) -> list[Stage]:
    """Returns the stages of a list, and behind them the layer of the outputs."""
    sketch = NetworkBuilder(
        Grid.square(features, model="layers") if takes_images(text) else features
    )
    left = _Left(_MOST_VALUES, _MOST_WEIGHTS)
    _sketch(sketch, left, checked(text))
    left.take(sketch, "linear", {"outputs": outputs})
    sketch.linear(outputs)
    return sketch.stages


def _sketch(
    sketch: NetworkBuilder, left: _Left, entries: Iterable[tuple[str, dict[str, Any]]]
) -> None:
    for name, values in entries:
        if name == _RESIDUAL:
            inner = partial(_sketch, left=left, entries=values["layers"])
            sketch.add_branches(lambda same: same, inner)
            continue
        given: dict[str, Any] = {
            key: tuple(size) if isinstance(size, list) else size for key, size in values.items()
        }
        if name == "activation":
            sketch.activation(ACTIVATIONS[given["function"]]())
        else:
            left.take(sketch, name, given)
            getattr(sketch, name)(**given)


@dataclass
class _Left:
    """What layers may still take: values of a record, and weights of the network."""

    values: int
    weights: int

    def take(self, sketch: NetworkBuilder, name: str, given: Mapping[str, Any]) -> None:
        """Checks that what a layer takes is left, before any memory is taken for it."""
        inputs, outputs = sketch.size, given.get("channels", given.get("outputs", 0))
        values = outputs
        if name in _OF_IMAGES and sketch.grid is not None:
            grid = sketch.grid
            kernel, padding = pair(given["kernel"]), pair(given.get("padding", 0))
            stride = pair(given.get("stride") or (1 if name == "convolution" else kernel))
            shape = grid.height, grid.width
            padded = [side + 2 * pad for side, pad in zip(shape, padding, strict=True)]
            steps = zip(padded, stride, strict=True)
            positions = prod(side // max(1, step) + 1 for side, step in steps)
            inputs = grid.channels * prod(kernel)
            behind = outputs or grid.channels
            values = grid.channels * prod(padded) + positions * (inputs + behind)
        self.values -= values
        self.weights -= inputs * outputs
        if min(self.values, self.weights) < 0:
            allowed = f"of layers with at most {_MOST_VALUES} values of a record in windows and "
            allowed += f"behind them, and {_MOST_WEIGHTS} weights"
            raise ArgumentError("model", f"{name} {dict(given)}", allowed, code="range")
