"""The aggregator that the options of `pea fl` ask for."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from extensions.errors import ArgumentError
from fl.chain import ChainAggregator
from fl.cli.choices import arguments_of, as_options
from fl.cli.options import Aggregation
from fl.masked import MaskedAggregator, SparseGraph
from fl.paillier import PaillierAggregator
from fl.paillier.aggregator import FIXED_POINT
from fl.plain import PlainAggregator
from fl.round.aggregator import Aggregator
from fl.round.quantization import FixedPoint

_OF_FIXED_POINT = {"frac_bits": "frac_bits", "range": "clip", "saturation": "saturation"}
_OF_RING = {"ring_bits": "bits", **_OF_FIXED_POINT}
"""From options to the fields of `FixedPoint` that they set."""
_OF_GRAPH = ("corrupt", "dropping")

_MAKERS: dict[str, Callable[..., Aggregator]] = {
    "chain": ChainAggregator,
    "masked": MaskedAggregator,
    "paillier": PaillierAggregator,
    "plain": PlainAggregator,
}
OWNERS = {
    "masked": ("threshold", "colluders", "graph", *_OF_GRAPH, "lanes", *_OF_RING),
    "paillier": (
        *("key_bits", "no_packing", "insecure_small_key", "hide_model", "model_range"),
        *_OF_FIXED_POINT,
    ),
    "chain": ("chains", "edges", "time_limit", "led_by", *_OF_RING),
    "plain": (),
}
"""From aggregators to the options that belong to each; the first is advised."""
_FIXED_POINTS = {"chain": FixedPoint(), "masked": FixedPoint(), "paillier": FIXED_POINT}


def aggregator_of(options: Aggregation) -> Aggregator:
    """Returns the aggregator; there is no default, since the plain one is insecure.

    Raises:
        ArgumentError: no such aggregator, an option of another one, or one out of range.
    """
    arguments = arguments_of("aggregator", OWNERS, vars(options))
    name = options.aggregator
    assert name is not None
    fields = {
        field: arguments.pop(option) for option, field in _OF_RING.items() if option in arguments
    }
    if arguments.pop("no_packing", False):
        arguments["packing"] = False
    if "model_range" in arguments and "hide_model" not in arguments:
        range_given = arguments["model_range"]
        raise ArgumentError("model_range", range_given, "{hide_model}", code="needs")
    with as_options(timeout="stage_timeout", clip="range", bits="ring_bits", against="graph"):
        graph = _graph_of(arguments)
        if graph is not None:
            arguments["graph"] = graph
        if name in _FIXED_POINTS:
            arguments["fixed_point"] = replace(_FIXED_POINTS[name], **fields)
        return _MAKERS[name](timeout=options.stage_timeout, **arguments)


def _graph_of(arguments: dict[str, Any]) -> SparseGraph | None:
    """Takes the options of a sparse graph off the arguments."""
    against = arguments.pop("graph", None)
    given = {name: arguments.pop(name) for name in _OF_GRAPH if name in arguments}
    if against is not None:
        return SparseGraph(against=against, **given)
    for name, value in given.items():
        raise ArgumentError(name, value, "{graph}", code="needs")
    return None


def fixed_point_of(aggregator: Aggregator) -> dict[str, Any]:
    """Returns how the aggregator encodes updates, by option; empty if it does not encode them."""
    fixed_point = aggregator.fixed_point
    return {
        option: getattr(fixed_point, field)
        for option, field in _OF_RING.items()
        if fixed_point is not None
    }
