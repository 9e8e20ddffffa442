"""Turning the modules of a CrypTen model into ours, so that a private step can read them."""

from typing import Any

from crypten_ext.nn.layers import BiasFree, Flatten, Gemm, Linear, ReLU, Sigmoid
from crypten_ext.nn.tape import Tape
from extensions.errors import UnsupportedLayerError

import crypten

OURS: dict[type, type] = {
    crypten.nn.Linear: Linear,
    crypten.nn.Gemm: Gemm,
    crypten.nn.ReLU: ReLU,
    crypten.nn.Sigmoid: Sigmoid,
    crypten.nn.Flatten: Flatten,
}
RECORDING = (Linear, Gemm, BiasFree)
WITHOUT_PARAMETERS = (ReLU, Sigmoid, Flatten, crypten.nn.Graph, crypten.nn.Parameter)


def adopt(model: Any, tape: Tape) -> None:
    """The model's linear layers record on `tape` from here on.

    CrypTen's own Linear, Gemm, ReLU, Sigmoid and Flatten modules become ours, in place, and so does
    what a converted Linear without bias consists of; a ReLU gets the default cap.

    Raises:
        UnsupportedLayerError: a module has no per-example norm; the message names it, and the
            model is as it was.
    """
    replacements = [pair for module in model.modules() for pair in _bias_free_layers(module)]
    fused = {id(part) for graph, name in replacements for part in _parts(graph, name)}
    for name, module in model.named_modules():
        if id(module) not in fused:
            _check(name, module)
    for graph, name in replacements:
        _fuse(graph, name)
    for name, module in model.named_modules():
        module.__class__ = OURS.get(type(module), type(module))
        if isinstance(module, RECORDING):
            module.tape, module.name = tape, name


def _check(name: str, module: Any) -> None:
    kind = type(module)
    known = kind in OURS or isinstance(module, RECORDING + WITHOUT_PARAMETERS)
    if not known or not _keeps_records_apart(module):
        raise UnsupportedLayerError(
            f"Layer {name or '(the model)'!r} ({kind.__name__}) is not supported by private "
            "training: supported are Linear, ReLU, Sigmoid, Flatten and Sequential. Extract "
            "features with it before sharing, or replace it."
        )


def _keeps_records_apart(module: Any) -> bool:
    """Whether the module is the special case of its kind in which one row is one example."""
    if isinstance(module, crypten.nn.Gemm):
        plain = module.alpha == 1.0 and module.beta == 1.0
        return plain and not module.trans_a and bool(module.trans_b)
    if isinstance(module, crypten.nn.Graph):
        return type(module).forward is crypten.nn.Graph.forward
    return not isinstance(module, crypten.nn.Flatten) or module.axis == 1


def _bias_free_layers(graph: Any) -> list[tuple[Any, str]]:
    """Returns (graph, name) of each product with a transposed parameter: a Linear without bias."""
    if not isinstance(graph, crypten.nn.Graph):
        return []
    return [(graph, name) for name in graph._graph if _is_bias_free(graph, name)]


def _is_bias_free(graph: Any, name: str) -> bool:
    module, inputs = graph._modules[name], graph._graph[name]
    if type(module) is not crypten.nn.MatMul or hasattr(module, "weight") or len(inputs) != 2:
        return False
    transposed = graph._modules.get(inputs[1])
    if not isinstance(transposed, crypten.nn.Transpose) or list(transposed.perm) != [1, 0]:
        return False
    (source,) = graph._graph[inputs[1]]
    users = sum(inputs[1] in others for others in graph._graph.values())
    return users == 1 and isinstance(graph._modules.get(source), crypten.nn.Parameter)


def _parts(graph: Any, name: str) -> tuple[Any, Any]:
    return graph._modules[name], graph._modules[graph._graph[name][1]]


def _fuse(graph: Any, name: str) -> None:
    x, transposed = graph._graph[name]
    (weight,) = graph._graph.pop(transposed)
    del graph._modules[transposed]
    graph._graph[name] = [x, weight]
    graph._modules[name].__class__ = BiasFree
