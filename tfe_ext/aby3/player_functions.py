"""What a player computes in the clear: in a graph of its own, on its device and on no other.

What such a function takes must not be made of constants of the graphs that are being built. These
are followed across functions, branches and loops. An argument of a function that is being traced
may be made of constants where that function is called: it is checked there.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import tensorflow as tf
from tensorflow.python.framework.func_graph import FuncGraph

from extensions.errors import InsecureError
from tfe_ext.aby3 import player_constants
from tfe_ext.aby3.player_constants import kept_on
from tfe_ext.streams.devices import in_this_process

import tf_encrypted as tfe

_OF_PYTHON = ("PyFunc", "EagerPyFunc", "PyFuncStateless")
"""Operations that only this process can compute."""


@contextmanager
def owned_by(player: Any) -> Iterator[None]:
    """Keeps tensors, variables and data sets of the block on one player's device.

        with tfe_ext.owned_by("alice"):
            rows = iter(tf.data.Dataset.from_tensor_slices(table).map(prepare).repeat())
        x = tfe.define_private_input("alice", lambda: next(rows))

    As ``tf.device(...)``, but functions that are traced in the block, such as `prepare`, keep their
    constants there as well; elsewhere TensorFlow sends them to every server. The player is one of
    the present configuration, or its name. Tracing raises InsecureError for a function that
    computes on another player's device.

    Examples:
        >>> with tfe_ext.owned_by("owner"):
        ...     rows = iter(tf.data.Dataset.from_tensor_slices([[1.0, 2.0], [3.0, 4.0]]).repeat())
        >>> x = tfe.define_private_input("owner", lambda: next(rows))
        >>> x.reveal().to_native().numpy()
        array([1., 2.])
    """
    device = tfe.get_config().get_player(player).device_name
    with tf.device(device), kept_on(device):
        yield


def compute_by(player: Any, function: Callable[[], Any], known: Sequence[Any] = ()) -> Any:
    """Returns what the function of no arguments returns, computed on a player's device.

    Within a ``tf.function`` it is traced in a graph of its own, whose constants are variables on
    the device (`own_constants`); what it takes from outside is fed as a tensor. It may take `known`
    tensors of the graph that is being built although constants went into them, because they were
    opened to the player. Raises InsecureError if it takes another constant, which everybody gets,
    or computes on another player's device.
    """
    if tf.executing_eagerly():
        with owned_by(player):
            return function()
    device = tfe.get_config().get_player(player).device_name
    convert, status = tf.__internal__.autograph.tf_convert, tf.__internal__.autograph
    converted = convert(function, status.control_status_ctx())
    # A function of the device, unlike its name, also places what called functions compute, and
    # keeps TensorFlow from taking what it traced for another device.
    with tf.compat.v1.device(lambda operation: _place(device, operation)), kept_on(device):
        own = tf.function(converted, autograph=False).get_concrete_function()
        for tensor in own.captured_inputs:
            if not any(tensor is one for one in known):
                check_not_constant(tensor)
        return own()


def _place(device: str, operation: tf.Operation) -> str:
    """Where an operation of the player's function is computed, if it has no other place."""
    default = in_this_process(device) if operation.type in _OF_PYTHON else device
    named = tf.DeviceSpec.from_string(operation.device)
    place: str = tf.DeviceSpec.from_string(default).make_merged_spec(named).to_string()
    return place


_ADVICE = (
    "TensorFlow sends a function's constants to every server. Make it inside the function that you "
    "give to tfe.define_private_input. Or make it outside of the tf.function, within `with "
    'tfe_ext.owned_by("alice"):`, and pass it as an argument.'
)
_TAKEN = "_tfe_ext_taken_by_owners"
_LOOPS = ("While", "StatelessWhile")
_CALLS = {
    **dict.fromkeys(("PartitionedCall", "StatefulPartitionedCall"), (("f",), 0)),
    **dict.fromkeys(_LOOPS, (("body",), 0)),
    **dict.fromkeys(("If", "StatelessIf"), (("then_branch", "else_branch"), 1)),
    **dict.fromkeys(("Case", "StatelessCase"), (("branches",), 1)),
}
"""Operations that call functions: by which attributes, and their first input that is handed on."""


def install() -> None:
    """Checks each call of a function when it enters a graph; called once for the process."""
    create = FuncGraph._create_op_internal

    def create_op(self: Any, op_type: str, *args: Any, **kwargs: Any) -> tf.Operation:
        operation = create(self, op_type, *args, **kwargs)
        if op_type in _CALLS and not player_constants.in_own_function():
            _check_call(operation)
        return operation

    FuncGraph._create_op_internal = create_op


@tf.autograph.experimental.do_not_convert
def check_not_constant(*tensors: Any, mixed: bool = False) -> None:
    """Checks that an owner's value is not made of constants of the graphs that are being built."""
    found = _Sources(tensors)
    alone = not (mixed or found.others or found.arguments)
    if found.constants and (alone or any(source.shape != () for source in found.constants)):
        raise InsecureError(f"{found.constants[-1].name} is a constant of a tf.function. {_ADVICE}")
    for argument in found.arguments:
        taken = _taken(argument.graph)
        if not any(argument is each for each in taken):
            taken.append(argument)


def _check_call(operation: tf.Operation) -> None:
    """Checks what a call hands on to owners' functions: also what a loop hands to its next turn."""
    for call in _called(operation):
        for argument in (taken := _taken(call.graph)):  # which may grow on the way
            place = next(i for i, each in enumerate(call.graph.inputs) if each is argument)
            changed = operation.type in _LOOPS and call.changes(place)
            later = [call.graph.outputs[place]] if changed else []
            check_not_constant(call.inputs[place], *later, mixed=changed)
        assert len(taken) <= len(call.inputs)


def _taken(graph: Any) -> list[Any]:
    """The arguments of a function that go into owners' functions."""
    if not hasattr(graph, _TAKEN):
        setattr(graph, _TAKEN, [])
    found: list[Any] = getattr(graph, _TAKEN)
    return found


class _Call(NamedTuple):
    """A function that an operation calls: its graph, what it gets, and whether it is an owner's."""

    graph: Any
    inputs: Sequence[Any]
    own: bool

    def changes(self, place: int) -> bool:
        """Whether a loop's body returns something else than it got there."""
        output = self.graph.outputs[place]
        while output.op.type == "Identity":
            output = output.op.inputs[0]
        return output is not self.graph.inputs[place]


def _called(operation: tf.Operation) -> list[_Call]:
    names, first = _CALLS.get(operation.type, (None, 0))
    attributes = operation.node_def.attr
    calls = []
    for attribute in sorted(attributes) if names is None else names:
        value = attributes[attribute]
        for named in [value.func, *value.list.func]:
            function = operation.graph._get_function(named.name) if named.name else None
            if function is not None:
                own = player_constants.has_variables(function.name)
                calls.append(_Call(function.graph, list(operation.inputs)[first:], own))
    return calls


class _Sources:
    """What tensors are made of, except shapes: constants of graphs, arguments, or anything else.

    Constants of owners' functions are variables, and not among these. Arguments are those of
    functions that are being traced.
    """

    def __init__(self, tensors: Sequence[Any]) -> None:
        self.constants: list[Any] = []
        self.arguments: list[Any] = []
        self.others = False
        self._given: dict[int, list[Any]] = {}
        self._own: list[Any] = []
        self._seen: dict[int, Any] = {}
        self._waiting = list(tensors)
        while self._waiting:
            tensor = self._waiting.pop()
            if id(tensor) not in self._seen:
                self._seen[id(tensor)] = tensor
                self._follow(tensor)

    def _follow(self, tensor: Any) -> None:
        graph = getattr(tensor, "graph", None)
        if graph is None:  # it has a value already
            self.others = True
            return
        outer = [outer for outer, inner in getattr(graph, "captures", ()) if inner is tensor]
        if id(tensor) in self._given or outer:
            self._waiting += outer or self._given[id(tensor)]
        elif any(tensor is each for each in getattr(graph, "inputs", ())):
            self.arguments.append(tensor)
        elif calls := _called(tensor.op):
            for call in calls:
                self._enter(call, tensor)
        else:
            self._compute(tensor)

    def _compute(self, tensor: Any) -> None:
        kind, inputs = tensor.op.type, list(tensor.op.inputs)
        before = [
            each
            for i, each in enumerate(inputs)
            if not player_constants.shaping(kind, i, len(inputs))
        ]
        self._waiting += before
        own = any(tensor.graph is graph for graph in self._own)
        if kind == "Const" and not own:
            self.constants.append(tensor)
        elif not before:
            self.others = True

    def _enter(self, call: _Call, output: Any) -> None:
        """Follows an output of an operation that calls a function."""
        operation, place = output.op, output.value_index
        if call.own:
            self._own.append(call.graph)
        if operation.type not in _CALLS:
            self._given |= {id(each): [] for each in call.graph.inputs}
            self._waiting += [*call.graph.outputs, *call.inputs]
            return
        for i, (inner, outer) in enumerate(zip(call.graph.inputs, call.inputs, strict=False)):
            given = [outer]
            if operation.type in _LOOPS and call.changes(i):
                given.append(call.graph.outputs[i])
            self._given[id(inner)] = [*self._given.get(id(inner), ()), *given]
            if id(inner) in self._seen:
                self._waiting += given
        self._waiting.append(call.graph.outputs[place])
        if operation.type in _LOOPS:
            self.others |= call.changes(place)
            self._waiting.append(call.inputs[place])
