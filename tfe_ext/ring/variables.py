"""What servers keep from one run of a graph to the next: shares, sums of some, public integers."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfe_ext.ring.scalars import Scalar
from tfe_ext.ring.shares import Additive3, Replicated, Share


def from_summands(servers: Sequence[str], summands: Sequence[Any]) -> Replicated:
    """Returns the share of which server R has x_R and x_(R + 1), given x_0, x_1 and x_2; local."""
    count = len(servers)
    held = [(rank + more) % count for rank in range(count) for more in (0, 1)]
    return Replicated(servers, [summands[rank] for rank in held])


def in_variables(share: Replicated) -> Replicated:
    """Returns the share in variables on its servers."""
    return share.each(lambda part: tf.Variable(part, trainable=False, name="share"))


def present(variables: Replicated) -> Replicated:
    """Returns what variables hold now, or whenever the graph runs that is being traced."""
    return variables.each(lambda variable: variable.read_value())


def assign(variables: Replicated, share: Share) -> None:
    """Puts another share of the same shape, which is replicated, in the variables."""
    assert isinstance(share, Replicated), type(share)
    for place, variable, part in zip(share.PLACES, variables.parts, share.parts, strict=True):
        with tf.device(share.servers[place]):
            variable.assign(part)


class SumVariable:
    """A sum of shares of one shape, of which each server adds up its own summands."""

    def __init__(self, servers: Sequence[str], shape: Sequence[int]) -> None:
        self._servers = tuple(servers)
        self._parts = []
        for server in servers:
            with tf.device(server):
                zeros = tf.zeros(shape, tf.int64)
                self._parts.append(tf.Variable(zeros, trainable=False, name="sum"))

    def clear(self) -> None:
        """Sets the sum to zero; local."""
        for server, variable in zip(self._servers, self._parts, strict=True):
            with tf.device(server):
                variable.assign(tf.zeros_like(variable))

    def add(self, share: Share) -> None:
        """Adds a share; local."""
        parts = zip(self._servers, self._parts, share.additive3().parts, strict=True)
        for server, variable, part in parts:
            if part is not None:
                with tf.device(server):
                    variable.assign_add(part)

    def read(self) -> Additive3:
        """Returns the sum."""
        values = []
        for server, variable in zip(self._servers, self._parts, strict=True):
            with tf.device(server):
                values.append(variable.read_value())
        return Additive3(self._servers, values)


class ScalarVariables:
    """Public integers in a variable on every server."""

    def __init__(self, servers: Sequence[str], values: Sequence[int]) -> None:
        self._servers = tuple(servers)
        self._values = tuple(values)
        self._variables = []
        for server in servers:
            with tf.device(server):
                initial = tf.constant(self._values, tf.int64)
                self._variables.append(tf.Variable(initial, trainable=False, name="public"))

    def assign(self, values: Sequence[int]) -> None:
        """Assigns other values; 8 bytes each from this process to every server, if they are new."""
        if tuple(values) != self._values:
            self._values = tuple(values)
            for variable in self._variables:
                variable.assign(self._values)

    def read(self) -> list[Scalar]:
        """Returns the present values."""
        columns = []
        for server, variable in zip(self._servers, self._variables, strict=True):
            with tf.device(server):
                columns.append(tf.unstack(variable.read_value()))
        return [Scalar(self._servers, parts) for parts in zip(*columns, strict=True)]
