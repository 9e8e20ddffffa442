"""What a model keeps for its next call: one graph, or one table, for each thing that it is for."""

import functools
from collections.abc import Callable, Hashable
from typing import Any

import tensorflow as tf

from tfe_ext.costs.cost import Cost, cost_of_graph, memory_of_graph


class Program:
    """A function without arguments as one graph, which is traced when it first runs."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._traced = tf.function(function, autograph=False)

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
        return memory_of_graph(self.graph)


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
