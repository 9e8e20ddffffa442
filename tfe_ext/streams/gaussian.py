"""Discrete Gaussians that a device draws from its own stream when a graph runs.

There is no loop, no float and no call back into Python: uniform words are looked up in the public
tables of `extensions.privacy.gaussian_table`, as constants of the graph.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from extensions.privacy.discrete import check_noise_scale
from extensions.privacy.gaussian_table import WORD_BITS, Digit, digits
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
        16 bytes of the stream a value and digit; 7 digits for a scale of 2^46.

    Raises:
        ArgumentError: a scale that is no usable standard deviation.
    """
    check_noise_scale(scale)
    with tf.device(device):
        if scale == 0.0:
            return tf.zeros(shape, tf.int64)
        table = digits(scale)
        words = uniform_words(stream, device, [len(table), 2, *shape])
        summands = [
            digit.weight * look_up(digit, *tf.unstack(pair))
            for digit, pair in zip(table, tf.unstack(words), strict=True)
        ]
        return tf.add_n(summands)


def look_up(digit: Digit, u: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    """Returns `Digit.look_up` in a graph: x for each pair of words in [0, 2^63)."""
    flat_u, flat_v = tf.reshape(u, [-1]), tf.reshape(v, [-1])
    place = tf.searchsorted(digit.high, flat_u, side="left", out_type=tf.int64)
    last = len(digit.high) - 1
    near = tf.minimum(place, last)
    equal = tf.equal(tf.gather(digit.high, near), flat_u) & (place <= last)
    tie = equal & (tf.gather(digit.low, near) <= flat_v)
    return tf.reshape(place + tf.cast(tie, tf.int64) + digit.lowest, u.shape)


def uniform_words(stream: Stream, device: str, shape: Sequence[int]) -> tf.Tensor:
    """Draws uniform integers in [0, 2^63) on the device."""
    with tf.device(device):
        return tf.bitwise.bitwise_and(stream.draw(shape, tf.int64).on(device), _LOW_BITS)
