"""The host's layers that a private step can train, and a model of them as a chain of stages."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tensorflow.python.keras import initializers

from extensions.errors import ArgumentError, UnsupportedLayerError
from extensions.layers.activations import PiecewiseLinear, relu, sigmoid, tanh
from extensions.layers.builder import NetworkBuilder
from extensions.layers.chain import Network
from extensions.layers.losses import Loss
from extensions.layers.stages.grid import Grid, Pair
from extensions.layers.stages.trained import Linear
from tfe_ext.ring.private_tensors import variables_of
from tfe_ext.ring.shares import Replicated

from tf_encrypted.keras import activations as host_activations
from tf_encrypted.keras.engine import Layer
from tf_encrypted.keras.layers import (
    Activation,
    AveragePooling2D,
    BatchNormalization,
    Conv2D,
    Dense,
    DepthwiseConv2D,
    Flatten,
    MaxPooling2D,
    ReLU,
)


class Residual(Layer):
    """Adds its input to the output of some layers.

    Args:
        layers: in order, of those that a private step can train; they return as many values as come
            here. Behind a layer with weights, the last one included, the sum needs an activation
            before the next such layer.
        kwargs: as in the host, such as the name.

    Cost:
        That of its layers; where the way parts, the gradients of both are added.

    Examples:
        >>> branch = [Dense(4, activation="tanh"), Dense(4)]
        >>> model = tfe_ext.keras.Sequential([
        ...     Dense(4, activation="tanh", batch_input_shape=[1, 4]),
        ...     tfe_ext.keras.Residual(branch), Activation("tanh"), Dense(3),
        ... ])
        >>> len(model.layers)
        4
    """

    def __init__(self, layers: Sequence[Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not layers:
            raise ArgumentError("layers", list(layers), "at least one", "Leave the Residual out.")
        self.layers = list(layers)

    def build(self, input_shape: Sequence[int]) -> None:
        """Makes the variables of its layers."""
        shape = [*input_shape]
        for layer in self.layers:
            if not layer.built:
                layer.build(shape)
                layer.built = True
            shape = [int(size) for size in layer.compute_output_shape(shape)]
            self.weights += layer.weights
        if [*shape[1:]] != [int(size) for size in input_shape[1:]]:
            raise ArgumentError(
                f"layers of {self.name}",
                f"records of {[*input_shape[1:]]} to {shape[1:]}",
                "layers whose output has the shape of their input, because both are added",
                code="shape",
            )
        self.built = True

    def call(self, inputs: Any) -> Any:
        """Returns the sum, by the host's own layers."""
        found = inputs
        for layer in self.layers:
            found = layer(found)
        return inputs + found

    def compute_output_shape(self, input_shape: Sequence[int]) -> Sequence[int]:
        """Returns the shape of what comes here."""
        return input_shape


TRAINED = Dense | Conv2D
IMAGES = Conv2D | AveragePooling2D | MaxPooling2D
_FUNCTIONS = {"relu": relu, "sigmoid": sigmoid, "tanh": tanh}
_KINDS = (Dense, Conv2D, AveragePooling2D, MaxPooling2D, Activation, ReLU, Flatten, Residual)
SUPPORTED = (
    "Dense and Conv2D with activation None, 'relu', 'sigmoid' or 'tanh', Activation of these, "
    "ReLU, AveragePooling2D, MaxPooling2D, Flatten and Residual of these"
)


def check_layer(layer: Any) -> None:
    """Checks that a private step can train the layer; raises UnsupportedLayerError otherwise."""
    if isinstance(layer, BatchNormalization):
        raise unsupported(
            layer,
            "it mixes the records of a batch, so no record has its own gradient; leave it out, "
            "because tanh, sigmoid and relu are bounded without it",
        )
    if not isinstance(layer, _KINDS) or isinstance(layer, DepthwiseConv2D):
        raise unsupported(layer, "PEA knows no per-example norm for it")
    if any(_is_own(layer, name) for name in ("call", "__call__", "backward", "build")):
        raise unsupported(layer, "it overrides call, backward or build, which training would skip")
    if layer.lazy_normalization:
        raise unsupported(
            layer,
            "lazy_normalization divides gradients by the batch size before clipping; leave it out, "
            "because the optimizer divides by the expected batch size",
        )
    if getattr(layer, "data_format", "channels_last") != "channels_last":
        raise unsupported(layer, "it takes channels first; use channels_last")
    if isinstance(layer, Conv2D) and len(set(layer.strides)) > 1:
        raise unsupported(layer, f"its strides are {layer.strides}, and the host uses only one")
    activation_of(layer)
    for inner in inner_of(layer):
        check_layer(inner)


def inner_of(layer: Any) -> list[Any]:
    """Returns the layers of a residual connection; of another layer none."""
    return layer.layers if isinstance(layer, Residual) else []


def check_place(layer: Any, sizes: Sequence[int]) -> None:
    """Checks that records of these sizes can come to the layer."""
    if isinstance(layer, Dense) and len(sizes) > 1:
        raise unsupported(layer, "a Flatten must come before it, behind images")
    if isinstance(layer, IMAGES) and len(sizes) != 3:
        raise unsupported(
            layer, "it needs images before it: batch_input_shape=[rows, height, width, channels]"
        )


def config_of(layers: Sequence[Any]) -> list[dict[str, Any]]:
    """Returns Keras's configuration of layers that `check_layer` accepts, as JSON can hold it."""
    return [{"class_name": _kind(layer).__name__, "config": _settings(layer)} for layer in layers]


def layers_of(configs: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Returns new layers of such a configuration; Keras's input layer only says a shape."""
    kinds = {kind.__name__: kind for kind in _KINDS}
    shape: dict[str, Any] = {}
    layers = []
    for each in configs:
        name, config = each["class_name"], each["config"]
        if name == "InputLayer":
            shape = {"batch_input_shape": config["batch_input_shape"]}
            continue
        if name not in kinds:
            raise UnsupportedLayerError(
                f"Layer {config.get('name')!r} ({name}) cannot be trained privately. Supported are "
                f"{SUPPORTED}."
            )
        if kinds[name] is Residual:
            config = {**config, "layers": layers_of(config["layers"])}
        layers.append(kinds[name](**shape | config))
        shape = {}
    return layers


def _settings(layer: Any) -> dict[str, Any]:
    settings = {"name": layer.name, "trainable": layer.trainable}
    if (shape := getattr(layer, "_batch_input_shape", None)) is not None:
        settings["batch_input_shape"] = [None, *(int(size) for size in tuple(shape)[1:])]
    if isinstance(layer, Residual):
        settings["layers"] = config_of(layer.layers)
    if isinstance(layer, Dense | Conv2D | Activation):
        settings["activation"] = _function_name(layer)
    if isinstance(layer, Dense):
        settings["units"] = layer.units
    if isinstance(layer, Conv2D):
        settings |= {"filters": layer.filters, "kernel_size": list(layer.kernel_size)}
    if isinstance(layer, AveragePooling2D | MaxPooling2D):
        settings["pool_size"] = list(layer.pool_size)
    if isinstance(layer, IMAGES):
        settings |= {"strides": list(layer.strides), "padding": layer.padding.lower()}
    if isinstance(layer, TRAINED):
        settings |= {
            "use_bias": layer.use_bias,
            "kernel_initializer": initializers.serialize(layer.kernel_initializer),
            "bias_initializer": initializers.serialize(layer.bias_initializer),
        }
    if hasattr(layer, "data_format"):
        settings["data_format"] = layer.data_format
    return settings


def _kind(layer: Any) -> type:
    kinds: Iterator[type] = (kind for kind in _KINDS if isinstance(layer, kind))
    return next(kinds)


def _is_own(layer: Any, name: str) -> bool:
    """Whether the layer computes by something else than the host's class of its kind."""
    host = _kind(layer)
    written, expected = (getattr(kind, name, None) for kind in (type(layer), host))
    return name in vars(layer) or written is not expected


def activation_of(layer: Any) -> PiecewiseLinear | None:
    """Returns the piecewise-linear function behind the layer's linear part, or None."""
    if isinstance(layer, ReLU):
        return relu()
    if not isinstance(layer, TRAINED | Activation):
        return None
    name = _function_name(layer)
    if name != "linear" and name not in _FUNCTIONS:
        raise unsupported(layer, f"its activation is {name!r}")
    if layer.activation is not host_activations.get(name):
        raise unsupported(layer, "its activation was replaced")
    return None if name == "linear" else _FUNCTIONS[name]()


def _function_name(layer: Any) -> str:
    """Returns the name of the function behind the layer: what was given, or that of the host's."""
    given = getattr(layer, "activation_identifier", None) or layer.activation
    return given if isinstance(given, str) else str(getattr(given, "__name__", given))


def unsupported(layer: Any, reason: str) -> UnsupportedLayerError:
    """Returns the error about a layer that cannot be trained, for that reason."""
    name = getattr(layer, "name", layer)
    return UnsupportedLayerError(
        f"Layer {name!r} ({type(layer).__name__}) cannot be trained privately: {reason}. "
        f"Supported are {SUPPORTED}."
    )


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


def chain_of(layers: Sequence[Any], loss: Loss = "sigmoid") -> Chain:
    """Returns what a model of built layers computes.

    Gradients of models with convolutions, or of more than two layers, are guarded
    (`extensions.layers.guards`). Raises UnsupportedLayerError if the layers cannot be trained in
    this order.
    """
    building = _Building(_input(layers[0]) if layers else NetworkBuilder(1))
    for layer in layers:
        check_layer(layer)
    building.add_all(layers)
    if not building.variables:
        raise UnsupportedLayerError(
            f"The model needs a Dense layer to train. Supported are {SUPPORTED}."
        )
    if not building.is_trained:
        raise UnsupportedLayerError(
            "All layers of the model have trainable=False. Set trainable=True for at least one."
        )
    if not building.is_open:
        raise unsupported(
            layers[-1], "the loss takes logits, so the last Dense must be the last layer"
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
    """A chain in the making: the sketch of its network, and its variables so far.

    It is open while what a layer with weights returned has met no activation yet, and trained if a
    step changes some of the variables.
    """

    sketch: NetworkBuilder
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
            raise unsupported(layer, "it must follow a linear layer")
        self.sketch.activation(function)
        self.is_open = False

    def _add_residual(self, layers: Sequence[Any]) -> None:
        def branch(sketch: NetworkBuilder) -> None:
            inner = replace(self, sketch=sketch)  # of the same variables
            inner.add_all(layers)
            self.is_open |= inner.is_open
            self.is_trained |= inner.is_trained

        self.sketch.add_branches(lambda same: same, branch)

    def _add_trained(self, layer: Any) -> None:
        if self.is_open:
            raise unsupported(
                layer, "an activation must come before it, which bounds the norms of its inputs"
            )
        if any(kernel is layer.kernel for kernel, _ in self.variables):
            raise unsupported(layer, "it is used twice; give each place a layer of its own")
        if layer.bias is not None and any(bias is layer.bias for _, bias in self.variables):
            raise unsupported(layer, "it shares its bias; give each layer its own")
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
            raise unsupported(layer, "Keras leaves padding out of a mean; use padding='valid'")
        self.sketch.average(layer.pool_size, stride=layer.strides)


def _input(layer: Any) -> NetworkBuilder:
    """Returns the sketch of a model before its first layer, whose shape of a record is known."""
    shape = getattr(layer, "_batch_input_shape", None)
    if shape is None:
        raise unsupported(layer, "the first layer has no batch_input_shape")
    sizes = tuple(int(size) for size in tuple(shape)[1:])
    if len(sizes) == 3:
        return NetworkBuilder(Grid(height=sizes[0], width=sizes[1], channels=sizes[2]))
    count = 1
    for size in sizes:
        count *= size
    return NetworkBuilder(count)


def _padding(sketch: NetworkBuilder, layer: Conv2D, kernel: Pair) -> tuple[Pair, Pair]:
    """Returns (above, below) and (left, right), of Keras's "same" or of none."""
    grid = sketch.grid
    if grid is None or layer.padding == "VALID":
        return (0, 0), (0, 0)
    sizes = zip((grid.height, grid.width), kernel, layer.strides, strict=True)
    down, across = (max(k - (size % stride or stride), 0) for size, k, stride in sizes)
    return (down // 2, down - down // 2), (across // 2, across - across // 2)
