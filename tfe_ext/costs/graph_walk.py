"""The tensors that pass between devices in a graph, in the order they must, and its memory."""

import functools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from graphlib import TopologicalSorter
from typing import Any

import tensorflow as tf

from extensions.errors import ArgumentError

_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
_LOOPS = ("While", "StatelessWhile")
_CONDITIONALS = ("If", "StatelessIf")
_COUNTER = "ResourceCountUpTo"
_CARRIERS = ("Bitcast", "Identity")
_PLACELESS = ("Identity", "IdentityN", "Placeholder", "NoOp")
"""Without a device they are where their operand is, unless control inputs keep them apart."""


@dataclass(frozen=True)
class Message:
    """A tensor that passes from one device to another, and its bytes.

    The depth is its place in the longest chain of messages that ends with it, from 1 on; that from
    the start counts numbers of counters as messages, too. `is_number` says whether it is one.
    """

    sender: str
    receiver: str
    size: int
    depth: int
    depth_from_start: int
    is_number: bool


@dataclass(eq=False)
class _Value:
    """A tensor: where it is, after how many messages; `device` is None if it is everywhere."""

    device: str | None
    depth: int = 0
    from_start: int = 0
    is_number: bool = False
    arrived: dict[str, "_Value"] = field(default_factory=dict)


class Walk:
    """A walk along a graph in the order of computation; `messages` holds what it has met."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    def function(self, graph: Any) -> None:
        """Walks along the graph of a concrete function without arguments."""
        given = {id(inner): _Value(canonical(outer.device)) for outer, inner in graph.captures}
        results = self._graph(graph, [given[id(tensor)] for tensor in graph.inputs], "")
        for tensor, result in zip(graph.outputs, results, strict=True):
            if not tensor.op.device:
                self._arrive(result, tensor, "")

    def _graph(self, graph: Any, inputs: Sequence[_Value], default: str) -> list[_Value]:
        known = {id(t): value for t, value in zip(graph.inputs, inputs, strict=True)}
        needed = needed_of(graph)
        for op in graph.get_operations():
            if op in needed and not all(id(output) in known for output in op.outputs):
                device = canonical(op.device) or default
                operands = [known[id(tensor)] for tensor in op.inputs]
                results = self._operation(op, operands, device)
                known.update({id(t): v for t, v in zip(op.outputs, results, strict=True)})
        return [known[id(tensor)] for tensor in graph.outputs]

    def _operation(self, op: Any, operands: list[_Value], device: str) -> list[_Value]:
        if op.type in _CALLS:
            (inner,) = inner_graphs(op)
            return self._graph(inner, operands, device)
        if op.type in _LOOPS:
            return self._loop(op, operands, device)
        if op.type in _CONDITIONALS:
            return self._conditional(op, operands, device)
        if op.type == "Const":
            return [_Value(None)]
        if op.type in _PLACELESS and not (op.device or op.control_inputs) and operands:
            return operands if len(operands) == len(op.outputs) else operands[:1]
        arrived = [
            self._arrive(value, tensor, device)
            for value, tensor in zip(operands, op.inputs, strict=True)
        ]
        result = _Value(
            device,
            max((value.depth for value in arrived), default=0),
            max((value.from_start for value in arrived), default=0),
            op.type == _COUNTER or (op.type in _CARRIERS and arrived[0].is_number),
        )
        return [replace(result, arrived={}) for _ in op.outputs]

    def _arrive(self, value: _Value, tensor: tf.Tensor, device: str) -> _Value:
        """Returns the value on the device, after a message if need be; once for each device."""
        if value.device in (None, device) or tensor.dtype == tf.resource:
            return value
        if device not in value.arrived:
            moved = replace(value, device=device, arrived={})
            moved.from_start += 1
            moved.depth += not value.is_number
            value.arrived[device] = moved
            self.messages.append(
                Message(
                    sender=str(value.device),
                    receiver=device,
                    size=_size(tensor),
                    depth=moved.depth,
                    depth_from_start=moved.from_start,
                    is_number=value.is_number,
                )
            )
        return value.arrived[device]

    def _loop(self, op: Any, operands: list[_Value], device: str) -> list[_Value]:
        condition, body = inner_graphs(op)

        def turn(walk: Walk, state: list[_Value]) -> list[_Value]:
            walk._graph(condition, state, device)
            return walk._graph(body, state, device)

        trial = Walk()
        state = turn(trial, turn(trial, _copies(operands)))  # the first one may send less
        if not trial.messages:
            return state
        state = operands
        for _ in range(_turns(op, condition, body)):
            state = turn(self, [replace(value, arrived={}) for value in state])
        return state

    def _conditional(self, op: Any, operands: list[_Value], device: str) -> list[_Value]:
        def branch(graph: Any) -> tuple[Walk, list[_Value]]:
            walk = Walk()
            return walk, walk._graph(graph, _copies(operands[1:]), device)

        branches = [branch(graph) for graph in inner_graphs(op)]
        walk, results = max(branches, key=lambda one: sum(m.size for m in one[0].messages))
        self.messages += walk.messages
        return results


@functools.cache
def canonical(device: str) -> str:
    """Returns the device's name in the one form that TensorFlow's own names have."""
    return tf.DeviceSpec.from_string(device).to_string() if device else ""


def _copies(values: Sequence[_Value]) -> list[_Value]:
    return [replace(value, arrived=dict(value.arrived)) for value in values]


def inner_graphs(op: Any) -> list[Any]:
    """Returns the graphs of the functions that an operation runs: a call, a loop, a conditional."""
    for kinds, names in (
        (_CALLS, ("f",)),
        (_LOOPS, ("cond", "body")),
        (_CONDITIONALS, ("then_branch", "else_branch")),
    ):
        if op.type in kinds:
            return [op.graph._get_function(op.get_attr(name).name).graph for name in names]
    return []


def needed_of(graph: Any) -> set[Any]:
    """Returns the operations that outputs or side effects depend on."""
    found: set[Any] = set()
    waiting = [tensor.op for tensor in graph.outputs] + list(graph.control_outputs)
    while waiting:
        op = waiting.pop()
        if op not in found:
            found.add(op)
            waiting += [tensor.op for tensor in op.inputs] + list(op.control_inputs)
    return found


def bytes_of(tensor: tf.Tensor) -> int | None:
    """Returns the bytes of a tensor, None if its shape is not known."""
    count = tensor.shape.num_elements()
    return None if count is None else int(count) * int(tensor.dtype.size)


def _size(tensor: tf.Tensor) -> int:
    size = bytes_of(tensor)
    if size is None:
        allowed = "a graph whose messages have static shapes"
        raise ArgumentError("function", tensor.name, allowed, "Fix the shapes.", code="shape")
    return size


def _turns(op: Any, condition: Any, body: Any) -> int:
    """Returns how often a loop turns that counts by a constant from one constant to another."""
    less = _behind_identities(condition.outputs[0])
    if less.op.type == "Less":
        counter, end = (_behind_identities(tensor) for tensor in less.op.inputs)
        place = _place(counter, condition)
        end_value = _constant(end, condition, op)
        if place is not None and end_value is not None:
            start = tf.get_static_value(op.inputs[place])
            step = _step(body, place)
            if start is not None and step is not None and step > 0:
                return max(0, -(-(int(end_value) - int(start)) // step))
    raise ArgumentError(
        "function",
        op.name,
        "a graph without messages in loops of unknown length",
        "Make the loop count up by a constant, and stop at a constant.",
    )


def _step(body: Any, place: int) -> int | None:
    added = _behind_identities(body.outputs[place])
    if added.op.type not in ("AddV2", "Add"):
        return None
    own, step = added.op.inputs
    if _place(_behind_identities(own), body) != place:
        return None
    value = tf.get_static_value(step)
    return None if value is None else int(value)


def _behind_identities(tensor: tf.Tensor) -> tf.Tensor:
    while tensor.op.type == "Identity":
        tensor = tensor.op.inputs[0]
    return tensor


def _place(tensor: tf.Tensor, graph: Any) -> int | None:
    return next((i for i, given in enumerate(graph.inputs) if given is tensor), None)


def _constant(tensor: tf.Tensor, graph: Any, op: Any) -> Any:
    place = _place(tensor, graph)
    return tf.get_static_value(tensor if place is None else op.inputs[place])


_SHARING = frozenset({"ExpandDims", "Identity", "IdentityN", "Reshape", "Squeeze", "StopGradient"})
"""What they return lies where their operand does."""
_STANDING = frozenset({"Const", "Placeholder", "ReadVariableOp", "VarHandleOp"})
"""What they return is there all the time."""


def peaks(graph: Any, default: str = "") -> Counter[str]:
    """Returns the most bytes of each device's tensors at one time, constants and variables apart.

    An operation is taken to run as soon as its operands are there; a tensor goes with the last
    operation that needs it. A call, and a loop's turn, takes what its own graph takes. Tensors of
    unknown shape count nothing; `default` is the device of operations without one.
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
