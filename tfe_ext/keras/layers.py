"""The host's layers as the public facts and the private variables of a chain of linear layers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tensorflow.python.keras import initializers

from extensions.errors import UnsupportedLayerError
from extensions.network.activations import PiecewiseLinear, relu, sigmoid
from extensions.network.chain import Network
from extensions.network.losses import Loss

from tf_encrypted.keras import activations as host_activations
from tf_encrypted.keras.layers import Activation, Dense, Flatten, ReLU

_FUNCTIONS = {"relu": relu, "sigmoid": sigmoid}
_KINDS = (Dense, Activation, ReLU, Flatten)
_SUPPORTED = (
    "Dense with activation None, 'relu' or 'sigmoid', Activation('relu' or 'sigmoid'), ReLU and "
    "Flatten"
)


@dataclass(frozen=True)
class Chain:
    """A model's network, with the kernel and bias of each Dense layer, from input to output.

    Attributes:
        network: public facts.
        variables: (kernel, bias), the kernel as the host has it, (in, out); the bias may be None.
    """

    network: Network
    variables: list[tuple[Any, Any]]

    @property
    def flat(self) -> list[Any]:
        """The kernels and biases that there are, in turn."""
        return [v for pair in self.variables for v in pair if v is not None]


def check_layer(layer: Any) -> None:
    """Checks that a private step can train the layer.

    Raises:
        UnsupportedLayerError: it cannot; the message names the layer.
    """
    if not isinstance(layer, _KINDS):
        raise _unsupported(layer, "no per-example norm is defined for it")
    if any(_is_own(layer, name) for name in ("call", "__call__", "backward", "build")):
        raise _unsupported(
            layer, "it has a call, backward or build of its own, which training would pass by"
        )
    if layer.lazy_normalization:
        raise _unsupported(
            layer,
            "lazy_normalization divides gradients by the batch size before they are clipped; leave "
            "it out, as the optimizer divides by the expected batch size",
        )
    if not layer.trainable:
        raise _unsupported(layer, "layers that are not trained (trainable=False) are not supported")
    if isinstance(layer, Flatten) and layer.data_format != "channels_last":
        raise _unsupported(layer, "it permutes the features; use channels_last")
    if isinstance(layer, Dense | Activation):
        activation_of(layer)


def config_of(layers: Sequence[Any]) -> list[dict[str, Any]]:
    """Returns Keras's configuration of layers that `check_layer` accepts, as JSON can hold it."""
    return [{"class_name": _kind(layer).__name__, "config": _settings(layer)} for layer in layers]


def layers_of(configs: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Returns new layers of such a configuration; Keras's input layer only says a shape.

    Raises:
        UnsupportedLayerError: a layer that has no private training.
    """
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
                f"{_SUPPORTED}."
            )
        layers.append(kinds[name](**shape | config))
        shape = {}
    return layers


def _settings(layer: Any) -> dict[str, Any]:
    settings = {"name": layer.name, "trainable": layer.trainable}
    if (shape := getattr(layer, "_batch_input_shape", None)) is not None:
        settings["batch_input_shape"] = [None, *(int(size) for size in tuple(shape)[1:])]
    if isinstance(layer, Dense | Activation):
        settings["activation"] = layer.activation_identifier or "linear"
    if isinstance(layer, Dense):
        settings |= {
            "units": layer.units,
            "use_bias": layer.use_bias,
            "kernel_initializer": initializers.serialize(layer.kernel_initializer),
            "bias_initializer": initializers.serialize(layer.bias_initializer),
        }
    if isinstance(layer, Flatten):
        settings["data_format"] = layer.data_format
    return settings


def _kind(layer: Any) -> type:
    """The host's class of which the layer is."""
    kinds: Iterator[type] = (kind for kind in _KINDS if isinstance(layer, kind))
    return next(kinds)


def _is_own(layer: Any, name: str) -> bool:
    """Whether the layer computes by something else than the host's class of its kind."""
    host = _kind(layer)
    return name in vars(layer) or getattr(type(layer), name) is not getattr(host, name)


def activation_of(layer: Any) -> PiecewiseLinear | None:
    """Returns the function that is applied behind the layer's linear part, or None.

    Raises:
        UnsupportedLayerError: it has no piecewise-linear form here.
    """
    if isinstance(layer, ReLU):
        return relu()
    if isinstance(layer, Flatten):
        return None
    name = layer.activation_identifier
    if layer.activation is not host_activations.get(name):
        raise _unsupported(layer, "its activation was replaced")
    if name is None or name == "linear":
        return None
    if not isinstance(name, str) or name not in _FUNCTIONS:
        raise _unsupported(layer, f"its activation is {name!r}")
    return _FUNCTIONS[name]()


def chain_of(layers: Sequence[Any], loss: Loss = "sigmoid") -> Chain:
    """Returns what a model computes.

    Args:
        layers: that are built.
        loss: of its training.

    Raises:
        ArgumentError: the loss does not take so many outputs.
        UnsupportedLayerError: the layers cannot be trained in this order.
    """
    variables: list[tuple[Any, Any]] = []
    widths: list[int] = []
    activations: list[PiecewiseLinear | None] = []
    for layer in layers:
        check_layer(layer)
        function = activation_of(layer)
        if isinstance(layer, Dense):
            if activations and activations[-1] is None:
                raise _unsupported(
                    layer, "an activation must come before it, which bounds the norms of its inputs"
                )
            if any(kernel is layer.kernel for kernel, _ in variables):
                raise _unsupported(layer, "it is used twice; give each place a layer of its own")
            inputs, outputs = layer.kernel.shape.as_list()
            widths += [outputs] if widths else [inputs, outputs]
            variables.append((layer.kernel, layer.bias))
            activations.append(function)
        elif function is not None:
            if not activations or activations[-1] is not None:
                raise _unsupported(layer, "it does not stand behind a linear layer")
            activations[-1] = function
    if not variables:
        raise UnsupportedLayerError(
            f"The model has no Dense layer, so nothing to train. Supported are {_SUPPORTED}."
        )
    if activations[-1] is not None:
        raise _unsupported(
            layers[-1], "the loss is computed from logits, so nothing stands behind the last Dense"
        )
    between = [function for function in activations if function is not None]
    biases = tuple(bias is not None for _, bias in variables)
    network = Network.dense(
        widths=tuple(widths), activations=tuple(between), has_bias=biases, loss=loss
    )
    return Chain(network, variables)


def _unsupported(layer: Any, reason: str) -> UnsupportedLayerError:
    return UnsupportedLayerError(
        f"Layer {layer.name!r} ({type(layer).__name__}) cannot be trained privately: {reason}. "
        f"Supported are {_SUPPORTED}."
    )
