"""Definitions of functions without their constants, which lie on one player's device instead.

When a function, branch, loop or map is traced, TensorFlow sends its definition, with every constant
in it, to all processes of a session. A definition that was traced in a block of `kept_on` has names
of variables there.
"""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

import tensorflow as tf
from tensorflow.core.framework.function_pb2 import FunctionDef
from tensorflow.core.framework.node_def_pb2 import NodeDef
from tensorflow.python.client import pywrap_tf_session
from tensorflow.python.data.ops import structured_function
from tensorflow.python.eager import context
from tensorflow.python.framework import c_api_util, ops

from extensions.errors import InsecureError
from tfe_ext.streams.devices import HERE

import tf_encrypted as tfe

SHAPING = {
    **dict.fromkeys(("Reshape", "BroadcastTo", "Tile", "ExpandDims", "Transpose"), (1,)),
    **dict.fromkeys(("Sum", "Mean", "Prod", "Max", "Min", "All", "Any", "ArgMax", "ArgMin"), (1,)),
    **dict.fromkeys(("EmptyTensorList", "TensorListReserve"), (0, 1)),
    **dict.fromkeys(("TensorListFromTensor", "TensorListStack"), (1,)),
    "TensorListGetItem": (2,),
    "Fill": (0,),
    **dict.fromkeys(("RandomUniform", "RandomStandardNormal", "TruncatedNormal"), (0,)),
    **dict.fromkeys(("RandomUniformInt", "StatelessRandomUniformV2"), (0,)),
    **dict.fromkeys(("StatelessRandomNormalV2", "StatelessTruncatedNormalV2"), (0,)),
}
"""Operations that take shapes or axes, which are public, and as which of their inputs."""
_WITH_AXIS_LAST = ("ConcatV2",)
_HERE = tf.DeviceSpec.from_string(HERE)
_player: ContextVar[str | None] = ContextVar("player", default=None)
_handles: dict[bytes, list[tf.Tensor]] = {}


@contextmanager
def kept_on(device: str) -> Iterator[None]:
    """Lets the definitions of functions that are traced in the block have no constants.

    Each constant becomes a variable on the player's device, which goes when the definition does;
    shapes and axes stay. Tracing raises InsecureError if a function computes on another player's
    device.
    """
    before = _player.set(device)
    try:
        yield
    finally:
        _player.reset(before)


def install() -> None:
    """Makes TensorFlow ask here for every definition, and leave tensors of players elsewhere there.

    When a function takes a small tensor from outside, TensorFlow fetches it, to know its value
    while it traces; one in another process stays there. Called once for the process.
    """
    add, remove = context.Context.add_c_function, context.Context.remove_function
    fetch = ops.EagerTensor._capture_as_const

    def add_c_function(self: Any, function: Any) -> None:
        device = _player.get()
        if device is None:
            add(self, function)
            return
        with c_api_util.tf_buffer() as buffer:
            pywrap_tf_session.TF_FunctionToFunctionDef(function, buffer)
            definition = FunctionDef.FromString(pywrap_tf_session.TF_GetBuffer(buffer))
        self.add_function_def(_without_constants(definition, device))

    def remove_function(self: Any, name: bytes | str) -> None:
        remove(self, name)
        with suppress(tf.errors.OpError), tf.init_scope():
            for handle in _handles.pop(tf.compat.as_bytes(name), ()):
                tf.raw_ops.DestroyResourceOp(resource=handle, ignore_lookup_error=True)

    def capture_as_const(self: Any, name: str | None) -> tf.Tensor | None:
        is_here = tf.DeviceSpec.from_string(self.backing_device).job == _HERE.job
        return fetch(self, name) if is_here else None

    context.Context.add_c_function = add_c_function
    context.Context.remove_function = remove_function
    ops.EagerTensor._capture_as_const = capture_as_const
    _keep_functions_of_data_sets()


def _keep_functions_of_data_sets() -> None:
    """Makes data sets keep to their device what their functions, as of ``Dataset.map``, hold.

    With players elsewhere, each constant of one that is traced outside of any graph becomes a
    variable on the device of the moment: that of ``tf.device(...)``, or the script's own.
    """
    wrapper: Any = structured_function.StructuredFunctionWrapper
    begin = wrapper.__init__

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        elsewhere = isinstance(tfe.get_config(), tfe.RemoteConfig)
        if in_own_function() or not (elsewhere and tf.executing_eagerly()):
            begin(self, *args, **kwargs)
            return
        device = _HERE.make_merged_spec(tf.DeviceSpec.from_string(context.context().device_name))
        with kept_on(device.to_string()):
            begin(self, *args, **kwargs)

    wrapper.__init__ = __init__


def in_own_function() -> bool:
    """Whether a function that is traced now keeps its constants on a device."""
    return _player.get() is not None


def has_variables(function: bytes) -> bool:
    """Whether the function of that name has variables in place of its constants."""
    return function in _handles


def shaping(operation: str, place: int, inputs: int) -> bool:
    """Whether an operation with that many inputs takes the one at the place as a shape or axis."""
    if operation in _WITH_AXIS_LAST:
        return place == inputs - 1
    return place in SHAPING.get(operation, ())


def _without_constants(definition: FunctionDef, device: str) -> FunctionDef:
    """Returns the definition with a variable on the device in place of each constant."""
    _check_devices(definition, device)
    moving = {node.name for node in definition.node_def if node.op == "Const"}
    moving -= _only_shaping(definition, moving)
    changed = FunctionDef()
    changed.CopyFrom(definition)
    del changed.node_def[:]
    handles = []
    for node in definition.node_def:
        if node.name in moving:
            handle, name = _variable(node, device)
            handles.append(handle)
            changed.node_def.extend(_reading(node, device, name))
        else:
            changed.node_def.append(node)
    if handles:
        _handles[definition.signature.name.encode()] = handles
    for node in changed.node_def:
        for place, source in enumerate(node.input):
            node.input[place] = _renamed(source, moving)
    for output, source in changed.ret.items():
        changed.ret[output] = _renamed(source, moving)
    return changed


def _check_devices(definition: FunctionDef, device: str) -> None:
    whole = tf.DeviceSpec.from_string(device)
    for node in definition.node_def:
        place = whole.make_merged_spec(tf.DeviceSpec.from_string(node.device)).to_string()
        if place not in (device, HERE):
            raise InsecureError(
                f"A function of the player on {device} computes {node.name} on {place}, which "
                "would see the player's values. Compute there on shares, outside of the function. "
                "To open something to a player, pass it to tfe.define_local_computation."
            )


def _only_shaping(definition: FunctionDef, names: set[str]) -> set[str]:
    """Returns those of the constants that are nothing but shapes and axes."""
    uses = [
        (_source(given), shaping(node.op, place, len(data)))
        for node in definition.node_def
        for data in [[each for each in node.input if not each.startswith("^")]]
        for place, given in enumerate(data)
    ]
    used = {name for name, _ in uses}
    otherwise = {name for name, shapes in uses if not shapes}
    return (names & used) - otherwise - {_source(given) for given in definition.ret.values()}


def _source(given: str) -> str:
    return given.removeprefix("^").partition(":")[0]


def _renamed(source: str, moved: set[str]) -> str:
    """The name of an output, which is another one where a variable took a constant's place."""
    return f"{_source(source)}:value:0" if ":" in source and _source(source) in moved else source


def _variable(constant: NodeDef, device: str) -> tuple[tf.Tensor, str]:
    """Returns a new variable with the constant's value, and the name by which it is found."""
    value = tf.make_ndarray(constant.attr["value"].tensor)
    dtype = tf.as_dtype(constant.attr["dtype"].type)
    name = f"own_{secrets.token_hex(16)}"
    with tf.init_scope(), tf.device(device):
        handle = tf.raw_ops.VarHandleOp(dtype=dtype, shape=value.shape, shared_name=name)
        tf.raw_ops.AssignVariableOp(resource=handle, value=tf.constant(value, dtype))
    return handle, name


def _reading(constant: NodeDef, device: str, shared_name: str) -> list[NodeDef]:
    """Returns the operations that find the variable and read it, under the constant's name."""
    kind = constant.attr["dtype"]
    finding = NodeDef(name=f"{constant.name}/variable", op="VarHandleOp", device=device)
    finding.attr["dtype"].CopyFrom(kind)
    finding.attr["shape"].shape.CopyFrom(constant.attr["value"].tensor.tensor_shape)
    finding.attr["shared_name"].s = shared_name.encode()
    reading = NodeDef(name=constant.name, op="ReadVariableOp", device=device)
    reading.input.extend([f"{finding.name}:resource:0", *constant.input])
    reading.attr["dtype"].CopyFrom(kind)
    return [finding, reading]
