"""What modules of CrypTen compute, in the clear.

Some of them take only encrypted tensors; these are stated here as functions of PyTorch.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.nn import functional

from crypten_ext.nn.layers.without_weights import Tanh

import crypten

Apply = Callable[[Any, Any], torch.Tensor]
"""Of a module, and what it is given: a tensor, or a list of several."""


def evaluated(graph: Any, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
    """Returns what an unencrypted graph in evaluation makes of plaintext, in double precision."""
    values = dict(zip(graph.input_names, inputs, strict=True))
    for name, sources in graph._graph.items():
        module = graph._modules[name]
        given = [values[source] for source in sources]
        apply = FUNCTIONS.get(type(module), _called)
        values[name] = apply(module, given[0] if len(given) == 1 else given)
    result: torch.Tensor = values[graph.output_names[0]]
    return result


def _called(module: Any, x: Any) -> torch.Tensor:
    result: torch.Tensor = module(x)
    return result


def _parameter(module: Any, _: Any) -> torch.Tensor:
    data: torch.Tensor = module.data
    return data.double() if data.is_floating_point() else data


def _convolved(module: Any, x: Any) -> torch.Tensor:
    function: Callable[..., torch.Tensor] = getattr(functional, f"conv{x[1].dim() - 2}d")
    return function(
        *x,
        stride=module.stride,
        padding=module.padding,
        dilation=module.dilation,
        groups=module.groups,
    )


def _averaged(module: Any, x: Any) -> torch.Tensor:
    return functional.avg_pool2d(
        x, module.kernel_size, module.stride, module.padding, module.ceil_mode
    )


def _largest(module: Any, x: Any) -> torch.Tensor:
    return functional.max_pool2d(
        x, module.kernel_size, module.stride, module.padding, ceil_mode=module.ceil_mode
    )


def _normalised(module: Any, x: Any) -> torch.Tensor:
    rows, weight, bias, mean, variance = (each.double() for each in x)
    return functional.batch_norm(rows, mean, variance, weight, bias, eps=module.eps)


def _gathered(module: Any, x: Any) -> torch.Tensor:
    rows, indices = x
    place = (slice(None),) * (module.dimension or 0)
    found: torch.Tensor = rows[(*place, indices.long())]
    return found


def _clamped(module: Any, x: Any) -> torch.Tensor:
    if isinstance(x, list):
        rows, least, most = x
        return functional.hardtanh(rows, least.item(), most.item())
    return functional.hardtanh(x, module.min_val, module.max_val)


def _cast(module: Any, x: Any) -> torch.Tensor:
    """What is encrypted stays as it is; shapes and constants are in other precisions."""
    return x if x.dtype == torch.float64 else _called(module, x)


def _padded(module: Any, x: Any) -> torch.Tensor:
    rows, padding = x if isinstance(x, list) else (x, torch.tensor(module.padding))
    return functional.pad(rows, padding.int().tolist(), value=module.value)


FUNCTIONS: Mapping[type, Apply] = {
    crypten.nn.Parameter: _parameter,
    crypten.nn.Conv: _convolved,
    crypten.nn.AvgPool2d: _averaged,
    crypten.nn.MaxPool2d: _largest,
    crypten.nn.GlobalAveragePool: lambda _, x: x.mean(tuple(range(2, x.dim())), keepdim=True),
    crypten.nn.module.BatchNormalization: _normalised,
    crypten.nn.Dropout: lambda _, x: x,
    crypten.nn.DropoutNd: lambda _, x: x,
    crypten.nn.Cast: _cast,
    crypten.nn.Concat: lambda module, x: torch.cat(x, module.dimension),
    crypten.nn.Gather: _gathered,
    crypten.nn.Hardtanh: _clamped,
    crypten.nn.module._ConstantPad: _padded,
    Tanh: lambda _, x: x.tanh(),
}
