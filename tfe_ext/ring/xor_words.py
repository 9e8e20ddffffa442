"""64-bit words on the servers' devices: XOR-shared by servers 0 and 1, or known to both."""

from typing import ClassVar, Self

import numpy as np
import tensorflow as tf

from extensions.ring.fixed_point import Integers, wrap
from tfe_ext.ring.placed import Placed


class Words(Placed):
    """Words of servers 0 and 1, with the operations that `extensions.ring.words` names.

    They are XOR shares, or equal where the word is public between the two.
    """

    PLACES: ClassVar[tuple[int, ...]] = (0, 1)

    def __xor__(self, other: Self) -> Self:
        return self._sum(other, tf.bitwise.bitwise_xor)

    def __and__(self, other: "Self | int") -> Self:
        if isinstance(other, int):
            mask = np.int64(wrap(other))
            return self.each(lambda part: tf.bitwise.bitwise_and(part, mask))
        pairs = enumerate(zip(self.parts, other.parts, strict=True))
        return self._with([self._on(i, tf.bitwise.bitwise_and, *pair) for i, pair in pairs])

    def __or__(self, other: int) -> Self:
        mask = np.int64(wrap(other))
        return self.each(lambda part: tf.bitwise.bitwise_or(part, mask))

    def __invert__(self) -> Self:
        return self.each(tf.bitwise.invert)

    def __lshift__(self, places: int) -> Self:
        return self.each(lambda part: tf.bitwise.left_shift(part, np.int64(places)))

    def __rshift__(self, places: int | Integers) -> Self:
        return self.each(lambda part: tf.bitwise.right_shift(part, np.int64(places)))

    def __sub__(self, integers: Integers) -> Self:
        return self.each(lambda part: part - integers)


class DealersWords(Words):
    """Words that server 2 knows."""

    PLACES: ClassVar[tuple[int, ...]] = (2,)
