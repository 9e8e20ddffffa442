"""How much memory a graph takes at once: the tensors that are waited for, by device."""

from collections import Counter
from collections.abc import Sequence
from graphlib import TopologicalSorter
from typing import Any

import tensorflow as tf

from tfe_ext.costs.graph_walk import bytes_of, canonical, inner_graphs, needed_of

_SHARING = frozenset({"ExpandDims", "Identity", "IdentityN", "Reshape", "Squeeze", "StopGradient"})
"""What they return lies where their operand does."""
_STANDING = frozenset({"Const", "Placeholder", "ReadVariableOp", "VarHandleOp"})
"""What they return is there all the time."""


def peaks(graph: Any, default: str = "") -> Counter[str]:
    """Returns the most bytes of each device's tensors at one time, constants and variables apart.

    An operation is taken to run as soon as its operands are there, all that are equally far from
    the start at once; a tensor goes with the last operation that needs it. A call, and a loop's
    turn, takes what its own graph takes. Tensors of unknown shape count nothing; `default` is the
    device of operations without one.
    """
    buffers, waited = _Buffers(), Counter[str]()
    operations = _in_order(graph)
    for op in operations:
        buffers.place(op)
        waited.update(buffers.of(tensor) for tensor in op.inputs)
    waited.update(buffers.of(tensor) for tensor in graph.outputs)
    live, most = Counter[str](), Counter[str]()

    def release(tensors: Sequence[tf.Tensor], uses: int) -> None:
        for tensor in tensors:
            name = buffers.of(tensor)
            waited[name] -= uses
            if waited[name] <= 0 and name in buffers.sizes:
                live[buffers.devices[name]] -= buffers.sizes.pop(name)

    for op in operations:
        device = canonical(op.device) or default
        for inner in inner_graphs(op):
            for place, taken in peaks(inner, device).items():
                most[place] = max(most[place], live[place] + taken)
        for tensor in op.outputs:
            if tensor.name in buffers.sizes:
                buffers.devices[tensor.name] = device
                live[device] += buffers.sizes[tensor.name]
        most[device] = max(most[device], live[device])
        release(op.inputs, 1)
        release(op.outputs, 0)
    return most


class _Buffers:
    """Where tensors lie, by name: the bytes of each buffer and, once it is there, its device."""

    def __init__(self) -> None:
        self.sizes: dict[str, int] = {}
        self.devices: dict[str, str] = {}
        self._shared: dict[str, str] = {}

    def place(self, op: Any) -> None:
        """Notes what an operation returns."""
        if op.type in _SHARING:
            for tensor, given in zip(op.outputs, op.inputs, strict=False):
                self._shared[tensor.name] = self.of(given)
        elif op.type not in _STANDING:
            self.sizes.update((tensor.name, bytes_of(tensor) or 0) for tensor in op.outputs)

    def of(self, tensor: tf.Tensor) -> str:
        """Returns the name of the tensor that lies there."""
        name = str(tensor.name)
        return self._shared.get(name, name)


def _in_order(graph: Any) -> list[Any]:
    """The operations that are needed, the nearest to the start first."""
    before = {
        op: [*(tensor.op for tensor in op.inputs), *op.control_inputs] for op in needed_of(graph)
    }
    depth: dict[Any, int] = {}
    for op in TopologicalSorter(before).static_order():
        depth[op] = 1 + max((depth[each] for each in before[op]), default=0)
    return sorted(depth, key=depth.__getitem__)
