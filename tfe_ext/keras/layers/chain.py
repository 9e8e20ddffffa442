"""A model of the host's layers as a network, beside the variables that it trains."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from extensions.errors import UnsupportedLayerError
from extensions.network.chain import Network
from extensions.network.losses import Loss
from extensions.network.sketch import Sketch
from extensions.network.stages.grid import Grid, Pair
from extensions.network.stages.trained import Linear
from tfe_ext.keras.layers.kinds import (
    IMAGES,
    SUPPORTED,
    TRAINED,
    activation_of,
    check_layer,
    check_place,
    inner_of,
    unsupported,
)
from tfe_ext.ring.private_tensors import variables_of
from tfe_ext.ring.shares import Replicated

from tf_encrypted.keras.layers import AveragePooling2D, Conv2D, Dense, Flatten


@dataclass(frozen=True)
class Chain:
    """A model's network, with the kernel and bias of each layer, from input to output.

    Kernels are as the host has them, (in, out) or (height, width, in, out); a bias may be None.
    """

    network: Network
    variables: list[tuple[Any, Any]]

    @property
    def flat(self) -> list[Any]:
        """The kernels and biases that there are, in turn."""
        return [v for pair in self.variables for v in pair if v is not None]

    @property
    def held(self) -> list[Replicated]:
        """What holds each of `flat` on the servers, as `tfe_ext.ring.variables` has it."""
        return [variables_of(variable) for variable in self.flat]

    @property
    def trained(self) -> list[bool]:
        """Whether a step changes each of `flat`."""
        stages = zip(self.variables, self.network.trained, strict=True)
        return [
            trained
            for pair, stage in stages
            for v, trained in zip(pair, (stage.has_weight, stage.has_bias), strict=True)
            if v is not None
        ]


def chain_of(layers: Sequence[Any], loss: Loss = "sigmoid") -> Chain:
    """Returns what a model of built layers computes.

    Gradients of models with convolutions, or of more than two layers, are guarded
    (`extensions.network.guards`). Raises UnsupportedLayerError if the layers cannot be trained in
    this order.
    """
    building = _Building(_input(layers[0]) if layers else Sketch(1))
    for layer in layers:
        check_layer(layer)
    building.add_all(layers)
    if not building.variables:
        raise UnsupportedLayerError(
            f"The model has no Dense layer, so nothing to train. Supported are {SUPPORTED}."
        )
    if not building.is_trained:
        raise UnsupportedLayerError(
            "All layers of the model have trainable=False, so there is nothing to train. Leave one."
        )
    if not building.is_open:
        raise unsupported(
            layers[-1], "the loss is computed from logits, so nothing stands behind the last Dense"
        )
    stages = building.sketch.stages
    if not isinstance(stages[-1], Linear):
        raise unsupported(layers[-1], "the last layer with weights is Dense")
    guarded = len(building.variables) > 2 or any(
        len(kernel.shape.as_list()) > 2 for kernel, _ in building.variables
    )
    return Chain(Network(stages=tuple(stages), loss=loss, guarded=guarded), building.variables)


@dataclass
class _Building:
    """A chain in the making: its sketch, and the variables so far.

    Attributes:
        sketch: of the network.
        variables: so far.
        is_open: whether what a layer with weights returned has met no activation yet.
        is_trained: whether a step changes some of the variables.
    """

    sketch: Sketch
    variables: list[tuple[Any, Any]] = field(default_factory=list)
    is_open: bool = False
    is_trained: bool = False

    @property
    def sizes(self) -> tuple[int, ...]:
        """Of a record, as far as it matters."""
        grid = self.sketch.grid
        return (self.sketch.size,) if grid is None else (grid.height, grid.width, grid.channels)

    def add_all(self, layers: Sequence[Any]) -> None:
        """Adds layers, in order."""
        for layer in layers:
            check_place(layer, self.sizes)
            self._add(layer)

    def _add(self, layer: Any) -> None:
        if inner := inner_of(layer):
            self._add_residual(inner)
        elif isinstance(layer, TRAINED):
            self._add_trained(layer)
        elif isinstance(layer, IMAGES):
            self._pool(layer)
        elif isinstance(layer, Flatten):
            self.sketch.flatten(channels_last=True)
        function = activation_of(layer)
        if function is None:
            return
        if not self.is_open:
            raise unsupported(layer, "it does not stand behind a linear layer")
        self.sketch.activation(function)
        self.is_open = False

    def _add_residual(self, layers: Sequence[Any]) -> None:
        def branch(sketch: Sketch) -> None:
            inner = replace(self, sketch=sketch)  # of the same variables
            inner.add_all(layers)
            self.is_open |= inner.is_open
            self.is_trained |= inner.is_trained

        self.sketch.beside(lambda same: same, branch)

    def _add_trained(self, layer: Any) -> None:
        if self.is_open:
            raise unsupported(
                layer, "an activation must come before it, which bounds the norms of its inputs"
            )
        if any(kernel is layer.kernel for kernel, _ in self.variables):
            raise unsupported(layer, "it is used twice; give each place a layer of its own")
        if layer.bias is not None and any(bias is layer.bias for _, bias in self.variables):
            raise unsupported(layer, "its bias is another layer's too; give each one of its own")
        trained = layer.trainable, layer.trainable and layer.bias is not None
        self.is_trained |= layer.trainable
        if isinstance(layer, Dense):
            self.sketch.linear(layer.kernel.shape.as_list()[1], trained=trained)
        else:
            padding = _padding(self.sketch, layer, layer.kernel_size)
            self.sketch.convolution(
                layer.filters,
                layer.kernel_size,
                stride=layer.strides,
                padding=padding,
                trained=trained,
            )
        self.variables.append((layer.kernel, layer.bias))
        self.is_open = True

    def _pool(self, layer: Any) -> None:
        padding = _padding(self.sketch, layer, layer.pool_size)
        if not isinstance(layer, AveragePooling2D):
            self.sketch.largest(layer.pool_size, stride=layer.strides, padding=padding)
            return
        if padding != ((0, 0), (0, 0)):
            raise unsupported(
                layer, "Keras does not count the padding of a mean; use padding='valid'"
            )
        self.sketch.average(layer.pool_size, stride=layer.strides)


def _input(layer: Any) -> Sketch:
    """Returns the sketch of a model before its first layer, whose shape of a record is known."""
    shape = getattr(layer, "_batch_input_shape", None)
    if shape is None:
        raise unsupported(layer, "the first layer has no batch_input_shape")
    sizes = tuple(int(size) for size in tuple(shape)[1:])
    if len(sizes) == 3:
        return Sketch(Grid(height=sizes[0], width=sizes[1], channels=sizes[2]))
    count = 1
    for size in sizes:
        count *= size
    return Sketch(count)


def _padding(sketch: Sketch, layer: Conv2D, kernel: Pair) -> tuple[Pair, Pair]:
    """Returns (above, below) and (left, right), of Keras's "same" or of none."""
    grid = sketch.grid
    if grid is None or layer.padding == "VALID":
        return (0, 0), (0, 0)
    sizes = zip((grid.height, grid.width), kernel, layer.strides, strict=True)
    down, across = (max(k - (size % stride or stride), 0) for size, k, stride in sizes)
    return (down // 2, down - down // 2), (across // 2, across - across // 2)
