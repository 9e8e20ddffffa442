"""Devices of players and of the script, and what is kept with the graph that is being built."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
import tensorflow as tf

from extensions.ring.fixed_point import Integers

import tf_encrypted as tfe

HERE = "/job:localhost/replica:0/task:0/device:CPU:0"
"""The script's own device, which no device scope around an operation can move."""
T = TypeVar("T")


def on_each(devices: Iterable[str], make: Callable[..., T], *columns: Iterable[Any]) -> list[T]:
    """Returns what is made on each device of what the columns have for it."""
    found = []
    for device, *own in zip(devices, *columns, strict=True):
        with tf.device(device):
            found.append(make(*own))
    return found


def turned(items: Sequence[T], by: int) -> tuple[T, ...]:
    """Returns the items from that place on, then those before it."""
    at = by % len(items)
    return (*items[at:], *items[:at])


def in_this_process(device: str) -> str:
    """Returns the device, if it is one of this process, and else this process's first."""
    return device if tf.DeviceSpec.from_string(device).job == "localhost" else HERE


def player_at(device: str) -> str:
    """Returns the name of the configuration's player on the device, or of what else it is."""
    if device == HERE:
        return "this script"
    players = {player.device_name: player.name for player in tfe.get_config().players}
    return f"player {players[device]}" if device in players else device


_CONSTANTS = "_tfe_ext_constants"
_LARGEST = 64
"""Elements of constants that are shared; larger ones are rarely used twice."""


def kept_on_graph(name: str) -> dict[Any, Any]:
    """Returns the dictionary of that name of the present graph; inner graphs have others.

    It is an attribute, since inner graphs inherit the collections of outer ones.
    """
    graph = tf.compat.v1.get_default_graph()
    if not hasattr(graph, name):
        setattr(graph, name, {})
    found: dict[Any, Any] = getattr(graph, name)
    return found


def split(tensor: tf.Tensor, sizes: Sequence[int], device: str) -> list[tf.Tensor]:
    """Returns parts of these sizes along the first axis, on the device."""
    lengths, axis = constant(np.array(sizes), device), constant(np.int32(0), device)
    with tf.device(device):
        parts: list[tf.Tensor] = tf.split(tensor, lengths, axis)
        return parts


def reshape(tensor: tf.Tensor, shape: Sequence[int] | tf.TensorShape, device: str) -> tf.Tensor:
    """Returns the tensor in another shape, on the device; itself if it has that shape."""
    wanted = tuple(shape.as_list() if isinstance(shape, tf.TensorShape) else shape)
    if tensor.shape.rank is not None and tuple(tensor.shape) == wanted:
        return tensor
    there = constant(np.array(wanted, np.int32), device)
    with tf.device(device):
        return tf.reshape(tensor, there)


def gather(tensor: tf.Tensor, places: Integers, device: str) -> tf.Tensor:
    """Returns what is at one place of the first axis, or at several, on the device."""
    indices, axis = constant(np.asarray(places, np.int32), device), constant(np.int32(0), device)
    with tf.device(device):
        return tf.raw_ops.GatherV2(params=tensor, indices=indices, axis=axis)


def rows(tensor: tf.Tensor, wanted: slice, device: str) -> tf.Tensor:
    """Returns a range of the first axis, on the device; TensorFlow copies nothing for it."""
    begin, end, _ = wanted.indices(tensor.shape[0])
    bounds = [constant(np.array([bound], np.int32), device) for bound in (begin, end, 1)]
    with tf.device(device):
        return tf.strided_slice(tensor, *bounds)


def constant(value: Any, device: str) -> Any:
    """Returns public integers on the device: one node of a graph for all that need them there.

    A number's type is NumPy's. TensorFlow would make a node for each operand that is no tensor,
    which were a third of a step's.
    """
    array = np.asarray(value)
    if tf.executing_eagerly() or array.size > _LARGEST:
        return value
    constants = kept_on_graph(_CONSTANTS)
    key = device, array.dtype.str, array.shape, array.tobytes()
    if key not in constants:
        with tf.control_dependencies(None), tf.device(device):
            constants[key] = tf.constant(array)
    return constants[key]
