"""Tasks that attack the stock ABY3 and ours alike, with what one server sees."""

import numpy as np
import tensorflow as tf

import tfe_ext
from tests.helpers.tfe_tasks.session import graph

import tf_encrypted as tfe
from tf_encrypted.protocol.aby3.aby3_tensors import ABY3PrivateTensor, ShareType
from tf_encrypted.tensor import factories


def classes():
    """The stock protocol, which leaks, and ours, which does not."""
    return [(tfe.protocol.ABY3(), True), (tfe_ext.ABY3(), False)]


def shared(protocol, words):
    """A sharing with these three shares, each at the two servers that hold it."""
    pairs = []
    for i, server in enumerate(protocol.servers):
        with tf.device(server.device_name):
            pair = (tf.identity(words[i]), tf.identity(words[(i + 1) % 3]))
            pairs.append([factories[tf.int64].tensor(word) for word in pair])
    return ABY3PrivateTensor(protocol, pairs, False, ShareType.ARITHMETIC)


def words_of(seed):
    """Three shares of eight values each."""
    return np.random.default_rng(seed).integers(-(2**62), 2**62, [3, 8])


def local_part(x, y):
    """What server 1 computes from its shares of a product, before it masks it for server 0."""
    return x[1] * y[1] + x[1] * y[2] + x[2] * y[1]


def two_calls_of_a_function_give_a_difference_of_secrets_away():
    """Server 0 subtracts what server 1 sent it in two calls of one traced function.

    For 64-bit masks that are fresh, one of 8 values fits with probability below 2^-60.
    """
    first, second, y = (words_of(seed) for seed in range(3))
    for protocol, leaks in classes():

        @graph
        def sent(words, protocol=protocol):
            product = shared(protocol, tf.unstack(words)) * shared(protocol, tf.unstack(y))
            return product.unwrapped[0][1].value

        seen = sent(tf.constant(first)) - sent(tf.constant(second))
        secret = local_part(first, y) - local_part(second, y)
        assert np.all(seen == secret) if leaks else not np.any(seen == secret), protocol


def outputs_of_a_broadcast_give_their_differences_away():
    """Server 0 subtracts two outputs of one product; odds as above."""
    x, y = words_of(1)[:, :1], words_of(2)
    for protocol, leaks in classes():

        @graph
        def sent(protocol=protocol):
            product = shared(protocol, tf.unstack(x)) * shared(protocol, tf.unstack(y))
            return product.unwrapped[0][1].value

        seen, secret = np.diff(sent()), np.diff(local_part(x, y))
        assert np.all(seen == secret) if leaks else not np.any(seen == secret), protocol


def the_largest_value_is_never_a_mask():
    """The stock class asks for masks below 127, so that a masked byte tells what it cannot be.

    Uniform bytes leave out 127 in 2^14 draws with probability (255 / 256)^16384 < 2^-92.
    """
    for protocol, leaks in classes():

        @graph
        def masks(protocol=protocol):
            sharing = protocol._gen_random_sharing([1 << 14], factory=factories[8])
            share = sharing.unwrapped[0][0].value
            return getattr(share, "value", share)  # the stock class wraps small types twice

        assert bool(np.any(masks() == 127)) is not leaks, protocol
