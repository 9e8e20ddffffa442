"""64-bit words on the servers' devices, which are XOR-shared or known, and public integers."""

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


class Scalar(Placed):
    """A public integer on each server, with what `extensions.ring.words.Exponent` names.

    Shares are multiplied by it, and it is added to them, where they lie.
    """

    PLACES: ClassVar[tuple[int, ...]] = (0, 1, 2)

    def __add__(self, other: int) -> Self:
        return self.beside_public(np.int64(other), tf.add)

    def __rsub__(self, other: int) -> Self:
        return (-self) + other

    def power(self) -> Self:
        """Returns 2^x modulo 2^64, for x in 0..63."""
        return self.each(lambda part: tf.bitwise.left_shift(np.int64(1), part))

    def shift_right(self, word: Words) -> Words:
        """Returns the words shifted logically to the right by x places, for x in 0..63."""

        def shift(part: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
            moved = tf.bitwise.right_shift(
                tf.bitcast(part, tf.uint64), tf.bitcast(places, tf.uint64)
            )
            return tf.bitcast(moved, tf.int64)

        return word.beside(self, shift)
