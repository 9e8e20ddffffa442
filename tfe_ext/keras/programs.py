"""What a model keeps for its next call: one graph, or one table, for each thing that it is for."""

from collections.abc import Callable, Hashable
from typing import Any


class Kept:
    """Values by their keys, of which the least recently used go.

    What a key names by `id` must be part of its value, so that no other object gets that number.

    Args:
        most: number of values.
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
