"""Discrete Gaussians that a device draws from its own stream when a graph runs.

Uniform words are looked up in the public tables of `extensions.privacy.gaussian_table`, which are
constants of the graph: no loop, no float, no call back into Python.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from extensions.privacy.gaussian_table import (
    LOWER_BITS,
    UNSETTLED,
    UPPER_BITS,
    WORD_BITS,
    Digit,
    check_noise_scale,
    digits,
)
from extensions.ring.fixed_point import Integers
from tfe_ext.streams.randomness import Stream

_LOW_BITS = np.int64((1 << WORD_BITS) - 1)


def discrete_gaussian(stream: Stream, device: str, scale: float, shape: Sequence[int]) -> tf.Tensor:
    """Draws integers of the discrete Gaussian (`extensions.privacy.gaussian_table`) on the device.

    The scale is the standard deviation in ring units; 0 gives zeros. It takes 8 bytes of the stream
    a value and digit; 7 digits for a scale of 2^46.
    """
    check_noise_scale(scale)
    with tf.device(device):
        if scale == 0.0:
            return tf.zeros(shape, tf.int64)
        table = digits(scale)
        words = [len(table), math.prod(shape)]
        u = uniform_words(stream, device, words)
        drawn = look_up(table, u, lambda: uniform_words(stream, device, words))
        weights = np.array([[digit.weight for digit in table]])
        return tf.reshape(tf.matmul(weights, drawn), shape)


def look_up(table: Sequence[Digit], u: tf.Tensor, draw_v: Callable[[], tf.Tensor]) -> tf.Tensor:
    """Returns `Digit.look_up` of every digit in a graph, all at once.

    Upper bits settle 96 words of 100; entries are searched for the others only. The table has at
    most two kinds of digits, and u is in [0, 2^63), (digits, values). `draw_v` returns as many more
    words, when the graph runs and some u is in a table: one of a million words is with probability
    2^-33, for tables of 1,000 entries.
    """
    joint = _Joint.of(table)
    first = tf.gather(
        joint.by_upper_bits, tf.bitwise.right_shift(u, np.int64(LOWER_BITS)) + joint.begins
    )
    drawn = tf.cast(first, tf.int64)
    where = tf.where(tf.equal(drawn, UNSETTLED))
    digit = tf.gather(where, 0, axis=1)
    signed = tf.gather_nd(u, where) + tf.gather(joint.signs, digit)
    entries, words = joint.high[None, :-1], tf.expand_dims(signed, 0)
    place = tf.raw_ops.LowerBound(sorted_inputs=entries, values=words, out_type=tf.int64)[0]
    met = tf.equal(tf.gather(joint.high, place), signed)

    def with_ties() -> tf.Tensor:
        inside = met & (place < len(joint.low) - 1)
        before = tf.gather(joint.low, place) <= tf.gather_nd(draw_v(), where)
        return place + tf.cast(inside & before, tf.int64)

    found = tf.cond(tf.reduce_any(met), with_ties, lambda: place)
    values = found - tf.gather(joint.zeros, digit)
    return tf.tensor_scatter_nd_update(drawn, where, values)


@dataclass(frozen=True)
class _Joint:
    """Tables of digits as one of 64-bit words: those of the second one have the sign.

    Attributes:
        high: entries of the second table and of the first, and a last one that is none.
        low: likewise.
        by_upper_bits: for the upper bits of a word, with the sign above them turned, x of its
            digit, or `UNSETTLED` where an entry has the same.
        begins: of each digit, where `by_upper_bits` begins for its table, (digits, 1).
        signs: what is added to words of each digit, (digits,).
        zeros: number of entries for which x of each digit is 0, (digits,).
    """

    high: Integers
    low: Integers
    by_upper_bits: npt.NDArray[np.int16]
    begins: Integers
    signs: Integers
    zeros: Integers

    @classmethod
    def of(cls, table: Sequence[Digit]) -> Self:
        """Returns the tables of digits, of which there are two at most."""
        kinds = list({digit.variance: digit for digit in table}.values())[::-1]
        signs = [np.int64(-1) << WORD_BITS, np.int64(0)][-len(kinds) :]
        high = np.concatenate([k.high + sign for k, sign in zip(kinds, signs, strict=True)])
        zeros = np.cumsum([0, *(len(k.high) for k in kinds[:-1])]) + [k.largest for k in kinds]
        own = np.array([[k.variance for k in kinds].index(digit.variance) for digit in table])
        end = [_LOW_BITS]
        return cls(
            np.concatenate([high, end]),
            np.concatenate([*(k.low for k in kinds), end]),
            np.concatenate([k.by_upper_bits for k in kinds]),
            own[:, None] << UPPER_BITS,
            np.array(signs)[own],
            zeros[own],
        )


def uniform_words(stream: Stream, device: str, shape: Sequence[int]) -> tf.Tensor:
    """Draws uniform integers in [0, 2^63) on the device."""
    with tf.device(device):
        return tf.bitwise.bitwise_and(stream.draw(shape, tf.int64).on(device), _LOW_BITS)
