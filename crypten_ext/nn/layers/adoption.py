"""Turning the modules of a CrypTen model into ours, so that a private step can read them."""

from typing import Any

from crypten_ext.nn import layers as ours
from crypten_ext.nn.layers.applying import Recording
from crypten_ext.nn.layers.conversion import check_compared
from crypten_ext.nn.tape import Tape
from extensions.errors import UnsupportedLayerError

import crypten

OURS: dict[type, type] = {
    crypten.nn.Linear: ours.Linear,
    crypten.nn.Gemm: ours.Gemm,
    crypten.nn.Conv1d: ours.Conv1d,
    crypten.nn.Conv2d: ours.Conv2d,
    crypten.nn.module.Conv: ours.Conv,
    crypten.nn.AvgPool2d: ours.AvgPool2d,
    crypten.nn.MaxPool2d: ours.MaxPool2d,
    crypten.nn.GlobalAveragePool: ours.GlobalAveragePool,
    crypten.nn.ReLU: ours.ReLU,
    crypten.nn.Sigmoid: ours.Sigmoid,
    crypten.nn.Flatten: ours.Flatten,
    crypten.nn.Reshape: ours.Reshape,
    crypten.nn.module.Add: ours.Add,
}
WITHOUT_PARAMETERS = (
    ours.AvgPool2d,
    ours.MaxPool2d,
    ours.GlobalAveragePool,
    ours.ReLU,
    ours.Sigmoid,
    ours.Tanh,
    ours.Flatten,
    ours.Reshape,
    ours.Add,
    crypten.nn.Graph,
    crypten.nn.Parameter,
    crypten.nn.Constant,
)
SUPPORTED = (
    "Linear, Conv1d, Conv2d, AvgPool2d, MaxPool2d, ReLU, Sigmoid, crypten_ext.nn.Tanh, Flatten, "
    "sums of two branches, and Sequential"
)
UNBOUNDED = "Leave it out: what Tanh, Sigmoid and ReLU return is bounded as it is."
_MIXES = f"it mixes the records of a batch, so no record has its own gradient. {UNBOUNDED}"
_DRAWS = (
    "it would draw from a generator that scripts seed. Leave it out, because clipping and noise "
    "already keep a model from memorizing records."
)
REFUSED = {
    **dict.fromkeys(("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "BatchNormalization"), _MIXES),
    **dict.fromkeys(("Dropout", "Dropout2d", "Dropout3d", "DropoutNd"), _DRAWS),
}
"""What is said of modules instead of naming those that are supported."""


def adopt(model: Any, tape: Tape) -> None:
    """The model's layers with weights record on `tape` from here on.

    CrypTen's own modules of the kinds that `OURS` names become ours, in place, and so does what a
    converted Linear without bias consists of; a ReLU gets the default cap.

    Raises UnsupportedLayerError if a module has no per-example norm, or if a converted model was
    not compared with PyTorch's; the model is then as it was.
    """
    graphs = [module for module in model.modules() if isinstance(module, crypten.nn.Graph)]
    replacements = [
        (one, name) for one in graphs for name in one._graph if _is_bias_free(one, name)
    ]
    fused = {
        id(graph._modules[part])
        for graph, name in replacements
        for part in (name, graph._graph[name][1])
    }
    for name, module in model.named_modules():
        if id(module) not in fused:
            _check(name, module)
    for module in model.modules():
        check_compared(module)
    for graph, name in replacements:
        _fuse(graph, name)
    for name, module in model.named_modules():
        module.__class__ = OURS.get(type(module), type(module))
        if isinstance(module, Recording):
            module.tape, module.name = tape, name


def layers_of(model: Any) -> list[dict[str, Any]]:
    """Returns weight and bias of each layer of an adopted model, by their names in the model.

    A converted layer has none itself: it takes them from the graph, by whatever names.
    """
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    layers = [[*module.parameters()] for module in model.modules() if isinstance(module, Recording)]
    for graph in model.modules():
        if isinstance(graph, crypten.nn.Graph):
            layers += [
                [part for name in inputs for part in _parameter_of(graph, name)]
                for node, inputs in graph._graph.items()
                if isinstance(graph._modules[node], Recording)
            ]
    return [{names[id(part)]: part for part in layer} for layer in layers if layer]


def _parameter_of(graph: Any, name: str) -> list[Any]:
    module = graph._modules.get(name)
    return [*module.parameters()] if isinstance(module, crypten.nn.Parameter) else []


def _check(name: str, module: Any) -> None:
    kind = type(module)
    known = kind in OURS or isinstance(module, (Recording, *WITHOUT_PARAMETERS))
    if known and _keeps_records_apart(module):
        return
    reason = REFUSED.get(kind.__name__, "")
    if getattr(module, "ceil_mode", False):
        reason = "ceil_mode has windows that end outside of images. Pad them, or leave it out."
    raise UnsupportedLayerError(
        f"Layer {name or '(the model)'!r} ({kind.__name__}) is not supported by private training: "
        + (
            reason
            or f"supported are {SUPPORTED}. Extract features with it before sharing, or replace it."
        )
    )


def _keeps_records_apart(module: Any) -> bool:
    """Whether the module is the special case of its kind in which one row is one example."""
    if isinstance(module, crypten.nn.Gemm):
        plain = module.alpha == 1.0 and module.beta == 1.0
        return plain and not module.trans_a and bool(module.trans_b)
    if isinstance(module, crypten.nn.Graph):
        return type(module).forward is crypten.nn.Graph.forward
    if isinstance(module, crypten.nn.Flatten):
        return int(module.axis) == 1
    return not getattr(module, "ceil_mode", False)


def _is_bias_free(graph: Any, name: str) -> bool:
    """Whether it is a product with a transposed parameter: a Linear without bias."""
    module, inputs = graph._modules[name], graph._graph[name]
    if type(module) is not crypten.nn.MatMul or hasattr(module, "weight") or len(inputs) != 2:
        return False
    transposed = graph._modules.get(inputs[1])
    if not isinstance(transposed, crypten.nn.Transpose) or list(transposed.perm) != [1, 0]:
        return False
    (source,) = graph._graph[inputs[1]]
    users = sum(inputs[1] in others for others in graph._graph.values())
    return users == 1 and isinstance(graph._modules.get(source), crypten.nn.Parameter)


def _fuse(graph: Any, name: str) -> None:
    x, transposed = graph._graph[name]
    (weight,) = graph._graph.pop(transposed)
    del graph._modules[transposed]
    graph._graph[name] = [x, weight]
    graph._modules[name].__class__ = ours.BiasFree
