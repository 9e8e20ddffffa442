"""A model as a graph of ONNX."""

from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from extensions import durable
from extensions.network.losses import SQUARED, middle
from extensions.protocols.sums.whitening import SHORTEST
from extensions.ring.fixed_point import Reals
from extensions.runs.model.files import OpenedModel

OPSET = 17
IR_VERSION = 8
"""Old enough for runtimes of 2022 and later."""

_SCORES: dict[str, tuple[str, dict[str, Any]]] = {
    "sigmoid": ("Sigmoid", {}),
    "hard-sigmoid": ("HardSigmoid", {"alpha": 0.25, "beta": 0.5}),
    "softmax": ("Softmax", {"axis": 1}),
}


def write(path: Path, model: OpenedModel) -> None:
    """Writes the graph: ``features`` in, ``logits`` and ``probabilities`` out, all float64.

    Where features are whitened, the graph begins with that. The names of the classes are in the
    header, which is the metadata property ``header``.
    """
    spec = model.header.spec
    caps = [function.bound for function in spec.network.activations]
    nodes: list[Any] = []
    constants: list[Any] = []

    def constant(name: str, value: Reals | float) -> str:
        constants.append(numpy_helper.from_array(np.asarray(value, np.float64), name))
        return name

    x = "features"
    if model.whitening is not None:
        norm = model.header.max_feature_norm
        given = [x, constant("whitening", model.whitening.matrix)]
        nodes.append(helper.make_node("MatMul", given, ["mapped"]))
        nodes.append(helper.make_node("ReduceL2", ["mapped"], ["lengths"], axes=[1]))
        given = ["lengths", constant("shortest", SHORTEST)]
        nodes.append(helper.make_node("Max", given, ["divisors"]))
        nodes.append(helper.make_node("Div", ["mapped", "divisors"], ["of_norm_1"]))
        nodes.append(helper.make_node("Mul", ["of_norm_1", constant("norm", norm)], ["whitened"]))
        x = "whitened"
    for i, ((weight, bias), cap) in enumerate(zip_longest(model.parameters, caps)):
        given = [x, constant(f"weight_{i}", weight), constant(f"bias_{i}", bias)]
        x = "logits" if cap is None else f"sums_{i}"
        nodes.append(helper.make_node("Gemm", given, [x], transB=1))
        if cap is not None:
            ends = [constant(f"{end}_{i}", value) for end, value in (("low", 0.0), ("high", cap))]
            nodes.append(helper.make_node("Clip", [x, *ends], [f"values_{i}"]))
            x = f"values_{i}"
    if spec.loss in SQUARED:
        at_zero = constant("middle", middle(spec.loss, spec.widths[-1]))
        nodes.append(helper.make_node("Add", ["logits", at_zero], ["uncut"]))
        cut = ["uncut", constant("least", 0.0), constant("most", 1.0)]
        nodes.append(helper.make_node("Clip", cut, ["probabilities"]))
    else:
        operator, settings = _SCORES[spec.loss]
        nodes.append(helper.make_node(operator, ["logits"], ["probabilities"], **settings))

    def tensor(name: str, columns: int) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.DOUBLE, ["records", columns])

    outputs = [tensor(name, spec.widths[-1]) for name in ("logits", "probabilities")]
    graph = helper.make_graph(
        nodes, "pea", [tensor("features", spec.widths[0])], outputs, constants
    )
    made = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="pea-mpl",
        producer_version=model.header.software,
    )
    helper.set_model_props(made, {"header": model.header.to_json()})
    onnx.checker.check_model(made)
    with durable.write(path) as file:
        file.write(made.SerializeToString())
