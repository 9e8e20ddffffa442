"""What servers keep from one run of a graph to the next: shares, sums of some, public integers."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.ops.resource_variable_ops import UninitializedVariable

from tfe_ext.ring.shares import Additive3, Replicated, Share
from tfe_ext.ring.xor_words import Scalar
from tfe_ext.streams.devices import on_each


def from_summands(servers: Sequence[str], summands: Sequence[Any]) -> Replicated:
    """Returns the share of which server R has x_R and x_(R + 1), given x_0, x_1 and x_2; local."""
    count = len(servers)
    held = [(rank + more) % count for rank in range(count) for more in (0, 1)]
    return Replicated(servers, [summands[rank] for rank in held])


def in_variables(share: Replicated) -> Replicated:
    """Returns the share in variables on its servers."""
    return share.each(lambda part: tf.Variable(part, trainable=False, name="share"))


def without_value(servers: Sequence[str], shape: Sequence[int]) -> Replicated:
    """Returns variables for a share of that shape, which take no memory before one is assigned."""
    devices = [servers[place] for place in Replicated.PLACES]

    def variable() -> tf.Variable:
        return UninitializedVariable(trainable=False, shape=shape, dtype=tf.int64, name="share")

    return Replicated(servers, on_each(devices, variable))


def present(variables: Replicated) -> Replicated:
    """Returns what variables hold now, or whenever the graph runs that is being traced."""
    return variables.each(lambda variable: variable.read_value())


def assign(variables: Replicated, share: Share) -> None:
    """Puts another share of the same shape, which is replicated, in the variables."""
    assert isinstance(share, Replicated), type(share)
    devices = [share.servers[place] for place in share.PLACES]
    on_each(devices, lambda own, part: own.assign(part), variables.parts, share.parts)


class SumVariable:
    """A sum of shares of one shape, of which each server adds up its own summands."""

    def __init__(self, servers: Sequence[str], shape: Sequence[int]) -> None:
        self._servers = tuple(servers)
        self._parts = on_each(
            servers, lambda: tf.Variable(tf.zeros(shape, tf.int64), trainable=False, name="sum")
        )

    def clear(self) -> None:
        """Sets the sum to zero; local."""
        on_each(self._servers, lambda own: own.assign(tf.zeros_like(own)), self._parts)

    def add(self, share: Share) -> None:
        """Adds a share; local."""

        def add(own: tf.Variable, part: Any) -> None:
            if part is not None:
                own.assign_add(part)

        on_each(self._servers, add, self._parts, share.additive3().parts)

    def read(self) -> Additive3:
        """Returns the sum."""
        values = on_each(self._servers, lambda own: own.read_value(), self._parts)
        return Additive3(self._servers, values)


class ScalarVariables:
    """Public integers in a variable on every server."""

    def __init__(self, servers: Sequence[str], values: Sequence[int]) -> None:
        self._servers, self._values = tuple(servers), tuple(values)
        self._variables = on_each(servers, self._variable)

    def _variable(self) -> tf.Variable:
        return tf.Variable(tf.constant(self._values, tf.int64), trainable=False, name="public")

    def assign(self, values: Sequence[int]) -> None:
        """Assigns other values; 8 bytes each from this process to every server, if they are new."""
        if tuple(values) != self._values:
            self._values = tuple(values)
            for variable in self._variables:
                variable.assign(self._values)

    def read(self) -> list[Scalar]:
        """Returns the present values."""
        columns = on_each(self._servers, lambda own: tf.unstack(own.read_value()), self._variables)
        return [Scalar(self._servers, parts) for parts in zip(*columns, strict=True)]
