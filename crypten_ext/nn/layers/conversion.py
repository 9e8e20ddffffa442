"""Whether CrypTen converts a model of PyTorch to the same function: compared in the clear.

CrypTen's conversion drops what its layers have no place for, in silence: of pooling the dilation,
windows, strides and paddings that differ by axis, `count_include_pad` and `divisor_override`; of
convolutions paddings that differ by axis.
"""

import copy
import math
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_pre_hook

from crypten_ext.nn.layers.plaintext import evaluated
from extensions.errors import UnsupportedLayerError

import crypten
from crypten.nn import onnx_converter

SCALES = (1.0, 2.0, 4.0, 8.0)
"""Deviations of the random inputs that are tried: a small one may miss where a function bends."""
TOLERANCE = 2.0**-16
"""Of the largest value: the ring's own precision, where attributes have that of single floats."""
Inputs = tuple[Any, ...]

_host_from_pytorch: Callable[[Any, Any], Any] = onnx_converter.from_pytorch


def install() -> None:
    """``crypten.nn.from_pytorch`` compares what it converts from here on."""
    crypten.nn.from_pytorch = onnx_converter.from_pytorch = from_pytorch


def remove() -> None:
    """``crypten.nn.from_pytorch`` is the host's again."""
    crypten.nn.from_pytorch = onnx_converter.from_pytorch = _host_from_pytorch


def from_pytorch(pytorch_model: torch.nn.Module, dummy_input: Any) -> Any:
    """Returns CrypTen's conversion of a model, as the host's function of this name does.

    First the two are compared, in evaluation and without a message. Weights, and inputs of the
    example's shape and type, are drawn from a fixed seed for it, because those at hand may be
    zeros, which hide most differences.

    Raises UnsupportedLayerError, naming the layer, if the conversion is another function.
    """
    model = _host_from_pytorch(pytorch_model, dummy_input)
    example = dummy_input if isinstance(dummy_input, tuple) else (dummy_input,)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.not_compared = compare(pytorch_model, example)
    return model


def check_compared(graph: Any) -> None:
    """Raises UnsupportedLayerError if a converted graph was not compared with its original."""
    if not any(hasattr(module, "_output_names") for module in graph.children()):
        return
    if not hasattr(graph, "not_compared"):
        raise UnsupportedLayerError(
            "The model was converted by crypten.nn.from_onnx or before crypten_ext.enable(), and "
            "CrypTen drops attributes of some layers. Call crypten.nn.from_pytorch after "
            "crypten_ext.enable(), which compares the models."
        )
    if graph.not_compared:
        raise UnsupportedLayerError(
            "PEA could not compare the converted model with PyTorch's, and CrypTen drops "
            f"attributes of some layers. {graph.not_compared}"
        )


def compare(model: torch.nn.Module, example: Inputs) -> str:
    """Returns why a model could not be compared with its conversion; "" if they agree.

    Raises UnsupportedLayerError, naming the layer, if they differ.
    """
    draws = torch.Generator().manual_seed(0)
    model = copy.deepcopy(model).eval()
    _draw_weights(model, draws)
    inputs = [tuple(_like(each, scale, draws) for each in example) for scale in SCALES]
    agrees, reason = _try(model, inputs)
    if agrees:
        return ""
    for name, layer, given in _calls(model, inputs):
        if _try(layer, given)[0] is False:
            raise UnsupportedLayerError(
                f"CrypTen converts layer {name!r}, {_described(layer)}, to another function. Give "
                "one kernel size, stride and padding for both directions, and otherwise PyTorch's "
                "defaults. Or build the model from crypten.nn's layers, which accept pairs."
            )
    if agrees is False:
        raise UnsupportedLayerError(
            f"CrypTen converts {type(model).__name__} to another function, although it converts "
            "each of its layers correctly. Replace what forward() calls by layers of torch.nn."
        )
    return reason


def _try(layer: torch.nn.Module, inputs: Sequence[Inputs]) -> tuple[bool | None, str]:
    """Returns whether a layer agrees with its conversion; None, and why, if nobody can tell."""
    try:
        return _agrees(layer, inputs), ""
    except Exception as error:  # of the host, of torch's exporter or of the user's model
        return None, f"{type(error).__name__}: {error}"


def _agrees(layer: torch.nn.Module, inputs: Sequence[Inputs]) -> bool:
    """Whether a layer and its conversion, for the first inputs, agree on all of them."""
    converted = _host_from_pytorch(layer, inputs[0])
    exact = copy.deepcopy(layer).double()
    for given in inputs:
        expected = exact(*_copied(given, torch.float64))
        if not bool(expected.isfinite().all()):
            raise ValueError("The model returns infinity or NaN for a random input.")
        found = evaluated(converted, _copied(given, torch.float64))
        if found.shape != expected.shape:
            return False
        if not float((found - expected).abs().max()) <= TOLERANCE * float(expected.abs().max()):
            return False
    return True


def _calls(
    model: torch.nn.Module, inputs: Sequence[Inputs]
) -> Iterator[tuple[str, torch.nn.Module, list[Inputs]]]:
    """Yields what each layer is given, call by call, inner layers before those that hold them."""
    names = {layer: name for name, layer in model.named_modules() if name}
    found: dict[tuple[torch.nn.Module, int], list[Inputs]] = defaultdict(list)

    def note(layer: torch.nn.Module, given: Inputs) -> None:
        if layer in names:
            found[layer, calls[layer]].append(_copied(given))
            calls[layer] += 1

    handle = register_module_forward_pre_hook(note)
    try:
        for given in inputs:
            calls: Counter[torch.nn.Module] = Counter()
            model(*_copied(given))
    except Exception:  # the model's own, which is the reason that is told
        return
    finally:
        handle.remove()
    for (layer, _), all_given in sorted(
        found.items(), key=lambda one: -names[one[0][0]].count(".")
    ):
        yield names[layer], layer, all_given


def _draw_weights(model: torch.nn.Module, draws: torch.Generator) -> None:
    """Draws matrices about zero, and vectors, which may be variances, about one."""
    for part in (*model.parameters(), *model.buffers()):
        if part.is_floating_point():
            uniform = torch.rand(part.shape, generator=draws)
            fan_in = max(1, math.prod(part.shape[1:]))
            drawn = uniform + 0.5 if part.dim() < 2 else (uniform - 0.5) * (12 / fan_in) ** 0.5
            part.data.copy_(drawn)


def _like(example: Any, scale: float, draws: torch.Generator) -> Any:
    """Returns a random tensor of an example's shape; an example of no real numbers as it is."""
    if not isinstance(example, torch.Tensor) or not example.is_floating_point():
        return example
    return (scale * torch.randn(example.shape, generator=draws)).to(example)


def _copied(given: Inputs, dtype: torch.dtype | None = None) -> Inputs:
    """Returns copies, which layers may change in place; real ones in another precision."""
    return tuple(
        each.to(dtype if each.is_floating_point() else None, copy=True)
        if isinstance(each, torch.Tensor)
        else each
        for each in given
    )


def _described(layer: torch.nn.Module) -> str:
    """Returns a layer's kind and all its attributes, of which PyTorch's own text has some."""
    names = getattr(layer, "__constants__", ())
    parts = ", ".join(f"{name}={getattr(layer, name)!r}" for name in names if hasattr(layer, name))
    return f"{type(layer).__name__}({parts})"
