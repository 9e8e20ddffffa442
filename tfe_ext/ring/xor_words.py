"""64-bit words on the servers' devices: XOR-shared by servers 0 and 1, or known to both."""

from typing import ClassVar, Self

import numpy as np
import tensorflow as tf

from extensions.ring.fixed_point import Integers, wrap
from tfe_ext.ring.placed import Placed


class Words(Placed):
    """Words of servers 0 and 1, with the operations that `extensions.ring.words` names.

    They are XOR shares, or equal where the word is public between the two; those are integers too.
    """

    PLACES: ClassVar[tuple[int, ...]] = (0, 1)

    def __xor__(self, other: Self) -> Self:
        return self._sum(other, tf.bitwise.bitwise_xor)

    def __and__(self, other: "Self | int") -> Self:
        if isinstance(other, int):
            return self.beside_public(np.int64(wrap(other)), tf.bitwise.bitwise_and)
        return self.beside(other, tf.bitwise.bitwise_and)

    def __or__(self, other: int) -> Self:
        return self.beside_public(np.int64(wrap(other)), tf.bitwise.bitwise_or)

    def __invert__(self) -> Self:
        return self.each(tf.bitwise.invert)

    def __lshift__(self, places: int) -> Self:
        return self.beside_public(np.int64(places), tf.bitwise.left_shift)

    def __rshift__(self, places: int | Integers) -> Self:
        return self.beside_public(np.asarray(places, np.int64), tf.bitwise.right_shift)

    def __add__(self, integer: int) -> Self:
        return self.beside_public(np.int64(wrap(integer)), tf.add)

    def __sub__(self, other: Placed | Integers | int) -> Self:
        if isinstance(other, Placed):
            return self.beside(other, tf.subtract)
        return self.beside_public(np.asarray(other, np.int64), tf.subtract)


class DealersWords(Words):
    """Words that server 2 knows."""

    PLACES: ClassVar[tuple[int, ...]] = (2,)
