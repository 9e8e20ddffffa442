"""A model as a graph of ONNX."""

from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from extensions import durable
from extensions.layers.losses import SQUARED, middle
from extensions.protocols.noisy_sums.whitening import SHORTEST
from extensions.ring.fixed_point import Reals
from extensions.runs.model.files import OpenedModel
from extensions.runs.model.inference import APART

OPSET = 17
IR_VERSION = 8
"""Old enough for runtimes of 2022 and later."""

_SCORES: dict[str, tuple[str, dict[str, Any]]] = {
    "sigmoid": ("Sigmoid", {}),
    "hard-sigmoid": ("HardSigmoid", {"alpha": 0.25, "beta": 0.5}),
    "softmax": ("Softmax", {"axis": 1}),
}


class _Graph:
    """Nodes and constants, as they are put together."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, name: str, value: Reals | float) -> str:
        """Returns the name, which stands for a constant from now on."""
        self.constants.append(numpy_helper.from_array(np.asarray(value, np.float64), name))
        return name

    def add(self, operator: str, given: list[str], result: str, **settings: Any) -> str:
        """Returns the name of what an operator makes of others."""
        self.nodes.append(helper.make_node(operator, given, [result], **settings))
        return result


def write(path: Path, model: OpenedModel) -> None:
    """Writes the graph: ``features`` in, ``logits`` and ``probabilities`` out, all float64.

    Where features are whitened, the graph begins with that. The names of the classes are in the
    header, which is the metadata property ``header``.
    """
    spec = model.header.spec
    graph = _Graph()
    x = "features" if model.whitening is None else _whitened(graph, model)
    caps = [function.bound for function in spec.network.activations]
    for i, ((weight, bias), cap) in enumerate(zip_longest(model.parameters, caps)):
        given = [x, graph.constant(f"weight_{i}", weight), graph.constant(f"bias_{i}", bias)]
        x = graph.add("Gemm", given, "logits" if cap is None else f"sums_{i}", transB=1)
        if cap is not None:
            ends = [graph.constant(f"low_{i}", 0.0), graph.constant(f"high_{i}", cap)]
            x = graph.add("Clip", [x, *ends], f"values_{i}")
    logits = "logits"
    if spec.widths[-1] == 2:
        logits = graph.add("MatMul", [logits, graph.constant("two", APART)], "apart")
    if spec.loss in SQUARED:
        at_zero = graph.constant("middle", middle(spec.loss, spec.widths[-1]))
        uncut = graph.add("Add", [logits, at_zero], "uncut")
        ends = [graph.constant("least", 0.0), graph.constant("most", 1.0)]
        graph.add("Clip", [uncut, *ends], "probabilities")
    else:
        operator, settings = _SCORES[spec.loss]
        graph.add(operator, [logits], "probabilities", **settings)
    _write(path, graph, model)


def _whitened(graph: _Graph, model: OpenedModel) -> str:
    """What the model's whitening makes of the features."""
    assert model.whitening is not None
    matrix = graph.constant("whitening", model.whitening.matrix)
    mapped = graph.add("MatMul", ["features", matrix], "mapped")
    lengths = graph.add("ReduceL2", [mapped], "lengths", axes=[1])
    divisors = graph.add("Max", [lengths, graph.constant("shortest", SHORTEST)], "divisors")
    of_norm_1 = graph.add("Div", [mapped, divisors], "of_norm_1")
    norm = graph.constant("norm", model.header.max_feature_norm)
    return graph.add("Mul", [of_norm_1, norm], "whitened")


def _write(path: Path, graph: _Graph, model: OpenedModel) -> None:
    """The graph is on disk, once it was found to be one."""

    def tensor(name: str, columns: int) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.DOUBLE, ["records", columns])

    widths = model.header.spec.widths
    outputs = [tensor(name, widths[-1]) for name in ("logits", "probabilities")]
    made = helper.make_model(
        helper.make_graph(
            graph.nodes, "pea", [tensor("features", widths[0])], outputs, graph.constants
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="pea-mpl",
        producer_version=model.header.software,
    )
    helper.set_model_props(made, {"header": model.header.to_json()})
    onnx.checker.check_model(made)
    with durable.write(path) as file:
        file.write(made.SerializeToString())
