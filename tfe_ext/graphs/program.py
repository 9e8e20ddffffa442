"""Computations on the servers as graphs: as one, or block by block; and what is kept."""

import functools
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from typing import Any, Protocol

import tensorflow as tf

from tfe_ext.costs.cost import Cost, cost_of_graph, memory_of_graph
from tfe_ext.streams.devices import on_each


class Prepared(Protocol):
    """What has to be prepared before a graph runs that computes on it."""

    @property
    def cost(self) -> Cost:
        """What it costs, once."""

    @property
    def memory(self) -> int:
        """Bytes of a server that it keeps."""

    def prepare(self) -> Cost | None:
        """Prepares it unless that is done; returns what it cost, None if nothing."""


class Program:
    """A function without arguments as one graph, which is traced when it first runs.

    Attributes:
        standing: rows on whose shares it computes, to be prepared before it runs; None if on none.
    """

    def __init__(self, function: Callable[[], Any], standing: Prepared | None = None) -> None:
        self._traced = tf.function(function, autograph=False)
        self.standing = standing

    def __call__(self) -> Any:
        """Runs the graph."""
        return self._traced()

    def trace(self) -> None:
        """Traces the graph now."""
        self._traced.get_concrete_function()

    @property
    def graph(self) -> Any:
        """The graph."""
        return self._traced.get_concrete_function().graph

    @functools.cached_property
    def cost(self) -> Cost:
        """What a run costs, read from the graph."""
        return cost_of_graph(self.graph)

    @functools.cached_property
    def memory(self) -> int:
        """Bytes that a server's process takes for it, as `Cost` says."""
        kept = 0 if self.standing is None else self.standing.memory
        return kept + memory_of_graph(self.graph)


Turn = dict[str, tf.Tensor]
"""By device, which turn it is of a graph: 0 for the first one."""


class Turns:
    """How many times a graph ran since this was cleared: a number on each device."""

    def __init__(self, devices: Iterable[str]) -> None:
        self._devices = [*dict.fromkeys(devices)]
        zero = partial(tf.zeros, [], tf.int64)
        self._turns = on_each(
            self._devices, lambda: tf.Variable(zero, trainable=False, name="turns")
        )

    def clear(self) -> None:
        """Begins with turn 0."""
        on_each(self._devices, lambda own: own.assign(tf.zeros_like(own)), self._turns)

    def take(self) -> Turn:
        """Returns which turn it is, and counts it."""
        before = on_each(self._devices, lambda own: own.read_value(), self._turns)
        on_each(self._devices, lambda own: own.assign_add(tf.ones_like(own)), self._turns)
        return dict(zip(self._devices, before, strict=True))


class InBlocks:
    """Two graphs that take owners' rows block by block: equal ones, and what these leave over.

    Args:
        devices: that need to know which turn it is.
        sizes: number of rows of each owner, of which the largest is at least `count`.
        act: takes a block, given the turn, where each owner's rows begin in turn 0, and how many
            each block has of them; what it returns stays where it was computed.
    """

    def __init__(
        self,
        devices: Iterable[str],
        sizes: Sequence[int],
        count: int,
        act: Callable[[Turn, Sequence[int], Sequence[int]], Any],
    ) -> None:
        self._turns = Turns(devices)
        equal, left = [n // count for n in sizes], [n % count for n in sizes]
        # What is left comes in the turn after all blocks.
        starts = [n - (count + 1) * more for n, more in zip(sizes, left, strict=True)]
        parts = [([0] * len(equal), equal, count), (starts, left, 1)]

        def take(starts: Sequence[int], sizes: Sequence[int]) -> Any:
            return act(self._turns.take(), starts, sizes)

        self._parts = [(Program(partial(take, *each)), n) for *each, n in parts if any(each[1])]

    def __call__(self) -> list[Any]:
        """Takes all rows; returns what each block did."""
        self._turns.clear()
        return [program() for program, times in self._parts for _ in range(times)]

    @property
    def cost(self) -> Cost:
        """What a call costs, read from the graphs."""
        (first, times), *rest = self._parts
        found = first.cost.then(first.cost, times - 1)
        for program, times in rest:
            found = found.then(program.cost, times)
        return found


class Kept:
    """The most recently used values, by their keys.

    What a key names by `id` must be part of its value, so that no other object gets that number.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: dict[Hashable, Any] = {}

    def __contains__(self, key: Hashable) -> bool:
        return key in self._values

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Returns the value of the key, made if there is none."""
        value = self._values.pop(key) if key in self._values else make()
        self._values[key] = value
        while len(self._values) > self._most:
            del self._values[next(iter(self._values))]
        return value
