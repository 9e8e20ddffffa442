"""What a player computes in the clear: in a graph of its own, on its device and on no other."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from tfe_ext.aby3.own_constants import kept_on
from tfe_ext.aby3.sources import check_not_constant
from tfe_ext.streams.devices import in_this_process

import tf_encrypted as tfe

_OF_PYTHON = ("PyFunc", "EagerPyFunc", "PyFuncStateless")
"""Operations that only this process can compute."""


@contextmanager
def owned_by(player: Any) -> Iterator[None]:
    """Lets tensors, variables and data sets of the block lie on a player's device alone.

        with tfe_ext.owned_by("alice"):
            rows = iter(tf.data.Dataset.from_tensor_slices(table).map(prepare).repeat())
        x = tfe.define_private_input("alice", lambda: next(rows))

    As ``tf.device(...)``, but functions that are traced in the block, such as `prepare`, keep their
    constants there as well; elsewhere TensorFlow sends them to every server. The player is one of
    the present configuration, or its name.

    Raises:
        InsecureError: when a function is traced that computes on the device of another player.
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
