"""Public integers that all three servers know, and that may be others whenever a graph runs."""

from typing import ClassVar, Self

import numpy as np
import tensorflow as tf

from tfe_ext.ring.placed import Placed
from tfe_ext.ring.xor_words import Words


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
