"""Uniform values of any type from the words of a key stream."""

import functools
import math

import numpy as np
import tensorflow as tf


def from_words(words: tf.Tensor, shape: tf.TensorShape, dtype: tf.DType) -> tf.Tensor:
    """Returns uniform values of the type, made of the bits of uint32 words; each serves once."""
    size = math.prod(shape.as_list())
    if dtype == tf.bool:
        bits = tf.bitwise.bitwise_and(words[:, None], tf.constant(_POWERS)[None])
        values = tf.reshape(bits != 0, [-1])[:size]
    elif dtype == tf.int64:
        values = tf.bitcast(tf.reshape(words, [size, 2]), tf.int64)
    else:
        values = tf.reshape(tf.bitcast(words, dtype), [-1])[:size]
    return tf.reshape(values, shape)


_POWERS = np.uint32(1) << np.arange(32, dtype=np.uint32)


@functools.cache
def bits_of(dtype: tf.DType) -> int:
    """Returns how many random bits a value of the type takes."""
    return 1 if dtype == tf.bool else int(dtype.size) * 8
