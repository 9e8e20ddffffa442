"""The shares of all parties as one array, whose first axis is the party."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from extensions.ring.fixed_point import Integers


class Shares:
    """One summand, or one word of an XOR, for each party; operations are local to each.

    Args:
        parts: (parties, ...).
    """

    __array_ufunc__ = None  # a public array on the left leaves the operation to this class

    def __init__(self, parts: Integers) -> None:
        self.parts = parts

    @property
    def shape(self) -> tuple[int, ...]:
        return self.parts.shape[1:]

    def with_axes(self, count: int) -> Integers:
        """Returns the parts with so many axes beside the party's, new ones in front."""
        return self.parts.reshape(len(self.parts), *(1,) * (count - len(self.shape)), *self.shape)

    def _join(self, operation: Callable[..., Any], other: Any) -> "Shares":
        if isinstance(other, Shares):
            count = max(len(self.shape), len(other.shape))
            return Shares(operation(self.with_axes(count), other.with_axes(count)))
        public = np.asarray(other, dtype=np.int64)
        return Shares(operation(self.with_axes(max(len(self.shape), public.ndim)), public))

    def __add__(self, other: "Shares") -> "Shares":
        return self._join(np.add, other)

    def __sub__(self, other: "Shares") -> "Shares":
        return self._join(np.subtract, other)

    def __neg__(self) -> "Shares":
        return Shares(-self.parts)

    def __mul__(self, public: Any) -> "Shares":
        return self._join(np.multiply, public)

    def __xor__(self, other: "Shares") -> "Shares":
        return self._join(np.bitwise_xor, other)

    def __and__(self, public: Any) -> "Shares":
        return self._join(np.bitwise_and, public)

    def __lshift__(self, places: Any) -> "Shares":
        return self._join(np.left_shift, places)

    def __rshift__(self, places: Any) -> "Shares":
        return self._join(np.right_shift, places)

    __rmul__, __rand__ = __mul__, __and__

    def __getitem__(self, key: Any) -> "Shares":
        return Shares(self.parts[(slice(None), *(key if isinstance(key, tuple) else (key,)))])

    def reshape(self, *shape: Any) -> "Shares":
        wanted: Sequence[int] = shape if isinstance(shape[0], int) else shape[0]
        return Shares(self.parts.reshape(len(self.parts), *wanted))

    def sum(self, axis: int) -> "Shares":
        return Shares(self.parts.sum(axis if axis < 0 else axis + 1))

    @property
    def T(self) -> "Shares":
        return Shares(self.parts.transpose(0, *range(len(self.shape), 0, -1)))
