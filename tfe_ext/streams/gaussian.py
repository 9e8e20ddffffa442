"""Discrete Gaussians that a device draws from its own stream when a graph runs.

There is no loop, no float and no call back into Python: uniform words are looked up in the public
tables of `extensions.privacy.gaussian_table`, as constants of the graph.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from extensions.privacy.gaussian_table import WORD_BITS, Digit, check_noise_scale, digits
from extensions.ring.fixed_point import Integers
from tfe_ext.streams.randomness import Stream

_LOW_BITS = np.int64((1 << WORD_BITS) - 1)


def discrete_gaussian(stream: Stream, device: str, scale: float, shape: Sequence[int]) -> tf.Tensor:
    """Draws integers of the discrete Gaussian (`extensions.privacy.gaussian_table`).

    Args:
        stream: of uniform words, which the device holds.
        device: where they are drawn, and looked up.
        scale: standard deviation in ring units; 0 gives zeros.
        shape: static.

    Cost:
        8 bytes of the stream a value and digit; 7 digits for a scale of 2^46.

    Raises:
        ArgumentError: a scale that is no usable standard deviation.
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

    Args:
        table: the digits.
        u: words in [0, 2^63), (digits, values).
        draw_v: returns as many more, when the graph runs and some u is in a table. One of a million
            words is with probability 2^-33, for tables of 1,000 entries.
    """
    lengths = np.array([[len(digit.high)] for digit in table])
    largest = np.array([[digit.largest] for digit in table])
    high = tf.constant(_padded([digit.high for digit in table]))
    place = tf.searchsorted(high, u, side="left", out_type=tf.int64)
    met = tf.equal(tf.gather(high, place, batch_dims=1), u)

    def with_ties() -> tf.Tensor:
        low = tf.gather(tf.constant(_padded([digit.low for digit in table])), place, batch_dims=1)
        return place + tf.cast(met & (place < lengths) & (low <= draw_v()), tf.int64)

    return tf.cond(tf.reduce_any(met), with_ties, lambda: place) - largest


def _padded(rows: Sequence[Integers]) -> Integers:
    """Returns the rows at one length, longer than any; no word is beyond what fills them."""
    longest = max(map(len, rows)) + 1
    return np.stack(
        [np.pad(row, (0, longest - len(row)), constant_values=_LOW_BITS) for row in rows]
    )


def uniform_words(stream: Stream, device: str, shape: Sequence[int]) -> tf.Tensor:
    """Draws uniform integers in [0, 2^63) on the device."""
    with tf.device(device):
        return tf.bitwise.bitwise_and(stream.draw(shape, tf.int64).on(device), _LOW_BITS)
