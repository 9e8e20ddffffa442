"""Variables of TF Encrypted whose shares are what was assigned last."""

import functools
from typing import Any

import tensorflow as tf


def follow(variable: Any) -> Any:
    """Returns the protocol's variable, with shares that are read whenever they are used.

    The host reads them once, so that a computation goes on with the variable's first value.
    """
    for share in tf.nest.flatten(variable.unwrapped):
        kind: Any = type(share)
        share.__class__ = _following(kind)
    return variable


@functools.cache
def _following(kind: Any) -> Any:
    def value(share: Any) -> tf.Tensor:
        with tf.device(share.device):
            return share.variable.read_value()

    def assign(share: Any, value: Any) -> Any:
        """As in the host, whose boolean variables raise an error after they assigned."""
        return share.variable.assign(value.value)

    return type(kind.__name__, (kind,), {"value": property(value), "assign": assign})
