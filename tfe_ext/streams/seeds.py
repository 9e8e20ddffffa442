"""Keys that one player draws for others, each for one tensor: how an input is shared."""

import math
from collections.abc import Sequence

import tensorflow as tf

from tfe_ext.streams import chacha
from tfe_ext.streams.chacha import BLOCK, KeystreamOn
from tfe_ext.streams.randomness import Draw
from tfe_ext.streams.uniform import bits_of, from_words


def seeds_on(draw: Draw, sender: str, receivers: Sequence[str]) -> dict[str, tf.Tensor]:
    """Returns, by device, a fresh key (8,) that the sender draws and sends to each receiver.

    It is eight int32 values of the sender's private stream.
    """
    with tf.device(sender):
        seed = tf.bitcast(draw.on(sender), tf.uint32)
    seeds = {sender: seed}
    for receiver in receivers:
        if receiver != sender:
            with tf.device(receiver):
                seeds[receiver] = tf.identity(seed)
    return seeds


def expand_seed(
    seed: tf.Tensor,
    shape: tf.TensorShape,
    dtype: tf.DType,
    device: str,
    keystream_on: KeystreamOn = chacha.keystream_on,
) -> tf.Tensor:
    """Returns a uniform tensor from a key that serves this one time, computed on the device."""
    words = -(-math.prod(shape.as_list()) * bits_of(dtype) // 32)
    with tf.device(device):
        blocks = tf.constant(-(-words // BLOCK), tf.int32)
        stream = keystream_on(device)(seed, tf.zeros([3], tf.uint32), blocks)
        return from_words(stream[:words], shape, dtype)
