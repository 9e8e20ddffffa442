"""The host's layers that a private step can train: which they are, and how they are written."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tensorflow.python.keras import initializers

from extensions.errors import UnsupportedLayerError
from extensions.network.activations import PiecewiseLinear, relu, sigmoid, tanh
from tfe_ext.keras.layers.residual import Residual

from tf_encrypted.keras import activations as host_activations
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
            "it mixes the records of a batch, so that none has a gradient; leave it out, as what "
            "tanh, sigmoid and relu return is bounded",
        )
    if not isinstance(layer, _KINDS) or isinstance(layer, DepthwiseConv2D):
        raise unsupported(layer, "no per-example norm is defined for it")
    if any(_is_own(layer, name) for name in ("call", "__call__", "backward", "build")):
        raise unsupported(
            layer, "it has a call, backward or build of its own, which training would pass by"
        )
    if layer.lazy_normalization:
        raise unsupported(
            layer,
            "lazy_normalization divides gradients by the batch size before they are clipped; leave "
            "it out, as the optimizer divides by the expected batch size",
        )
    if getattr(layer, "data_format", "channels_last") != "channels_last":
        raise unsupported(layer, "it takes channels first; use channels_last")
    if isinstance(layer, Conv2D) and len(set(layer.strides)) > 1:
        raise unsupported(layer, f"its strides are {layer.strides}, of which the host counts one")
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
    """The host's class of which the layer is."""
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
