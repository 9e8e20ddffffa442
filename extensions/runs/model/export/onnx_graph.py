"""A model as a graph of ONNX."""

from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from extensions import durable
from extensions.data.schema import Category, Number
from extensions.data.schema.encoding import PLACE_BITS
from extensions.layers.losses import SQUARED, middle
from extensions.protocols.noisy_sums.whitening import SHORTEST
from extensions.ring.fixed_point import Reals
from extensions.runs.model.export.lookups import Lookup, lookups
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

    def indices(self, name: str, value: int | list[int]) -> str:
        """Returns the name, which stands for whole numbers from now on."""
        self.constants.append(numpy_helper.from_array(np.asarray(value, np.int64), name))
        return name

    def add(self, operator: str, given: list[str], result: str, **settings: Any) -> str:
        """Returns the name of what an operator makes of others."""
        self.nodes.append(helper.make_node(operator, given, [result], **settings))
        return result


def write(path: Path, model: OpenedModel) -> None:
    """Writes the graph: ``features`` in, ``logits`` and ``probabilities`` out, all float64.

    Where features are whitened, the graph begins with that. An additive model takes the columns of
    its schema instead: numbers in their unit, categories as their number in the schema's order, NaN
    where a value is missing. The names of the classes are in the
    header, which is the metadata property ``header``.
    """
    spec = model.header.spec
    graph = _Graph()
    if model.header.grid is not None:
        _add_terms(graph, model)
        _add_probabilities(graph, model)
        _write(path, graph, model)
        return
    x = "features" if model.whitening is None else _whitened(graph, model)
    caps = [function.bound for function in spec.network.activations]
    for i, ((weight, bias), cap) in enumerate(zip_longest(model.parameters, caps)):
        given = [x, graph.constant(f"weight_{i}", weight), graph.constant(f"bias_{i}", bias)]
        x = graph.add("Gemm", given, "logits" if cap is None else f"sums_{i}", transB=1)
        if cap is not None:
            ends = [graph.constant(f"low_{i}", 0.0), graph.constant(f"high_{i}", cap)]
            x = graph.add("Clip", [x, *ends], f"values_{i}")
    _add_probabilities(graph, model)
    _write(path, graph, model)


def _add_probabilities(graph: _Graph, model: OpenedModel) -> None:
    """Adds what makes ``probabilities`` of ``logits``."""
    spec = model.header.spec
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


def _add_terms(graph: _Graph, model: OpenedModel) -> None:
    """Adds what makes logits of an additive model's columns, each looked up in a table."""
    parts = []
    for i, lookup in enumerate(lookups(model)):
        place = graph.indices(f"place_{i}", i)
        given = graph.add("Gather", ["features", place], f"given_{i}", axis=1)
        absent = graph.add("IsNaN", [given], f"absent_{i}")
        known = graph.add("Where", [absent, graph.constant(f"none_{i}", 0.0), given], f"known_{i}")
        numbered = isinstance(lookup.column, Number)
        row = (_row_of_number if numbered else _row_of_category)(graph, lookup, known, i)
        last = graph.indices(f"last_{i}", len(lookup.table) - 1)
        row = graph.add("Where", [absent, last, row], f"row_{i}")
        table = graph.constant(f"table_{i}", lookup.table)
        parts.append(graph.add("Gather", [table, row], f"adds_{i}", axis=0))
    ((_, bias),) = model.parameters
    graph.add("Sum", [*parts, graph.constant("bias", bias)], "logits")


def _row_of_number(graph: _Graph, lookup: Lookup, known: str, i: int) -> str:
    column = lookup.column
    assert isinstance(column, Number)
    limits = [graph.constant(f"least_{i}", column.low), graph.constant(f"most_{i}", column.high)]
    value = graph.add("Clip", [known, *limits], f"within_{i}")
    if column.scale == "log1p":
        size = graph.add("Abs", [value], f"size_{i}")
        more = graph.add("Add", [size, graph.constant(f"one_{i}", 1.0)], f"more_{i}")
        signs = graph.add("Sign", [value], f"sign_{i}")
        value = graph.add("Mul", [signs, graph.add("Log", [more], f"log_{i}")], f"bent_{i}")
    elif column.scale == "log":
        value = graph.add("Log", [value], f"bent_{i}")
    low, high = lookup.ends
    above = graph.add("Sub", [value, graph.constant(f"low_{i}", low)], f"above_{i}")
    scale = graph.constant(f"scale_{i}", 2.0**PLACE_BITS / (high - low))
    place = graph.add("Round", [graph.add("Mul", [above, scale], f"far_{i}")], f"rounded_{i}")
    apart = graph.add("Unsqueeze", [place, graph.indices(f"axis_{i}", [1])], f"apart_{i}")
    edges = graph.constant(f"edges_{i}", lookup.edges[None] * 2.0**PLACE_BITS)
    reached = graph.add("GreaterOrEqual", [apart, edges], f"reached_{i}")
    ones = graph.add("Cast", [reached], f"ones_{i}", to=TensorProto.INT64)
    axis = graph.indices(f"sum_axis_{i}", [1])
    return graph.add("ReduceSum", [ones, axis], f"counted_{i}", keepdims=0)


def _row_of_category(graph: _Graph, lookup: Lookup, known: str, i: int) -> str:
    assert isinstance(lookup.column, Category)
    whole = graph.add("Cast", [known], f"whole_{i}", to=TensorProto.INT64)
    low = graph.add("Less", [whole, graph.indices(f"first_{i}", 0)], f"below_{i}")
    count = graph.indices(f"count_{i}", len(lookup.column.categories))
    high = graph.add("GreaterOrEqual", [whole, count], f"beyond_{i}")
    other = graph.add("Or", [low, high], f"other_{i}")
    unnamed = graph.indices(f"unnamed_{i}", lookup.unnamed)
    return graph.add("Where", [other, unnamed, whole], f"named_{i}")


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

    widths, grid = model.header.spec.widths, model.header.grid
    inputs = widths[0] if grid is None else len(grid.columns)
    outputs = [tensor(name, widths[-1]) for name in ("logits", "probabilities")]
    made = helper.make_model(
        helper.make_graph(
            graph.nodes, "pea", [tensor("features", inputs)], outputs, graph.constants
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
