"""ChaCha20 (RFC 8439) in portable TensorFlow operations: the same words on every device.

All blocks of a draw are computed at once, as four rows of shape (4, blocks).
"""

import functools
from collections.abc import Callable

import tensorflow as tf

BLOCK = 16  # words
_ROUNDS = 20
_CONSTANTS = (0x61707865, 0x3320646E, 0x79622D32, 0x6B206574)  # "expand 32-byte k"
Keystream = Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tf.Tensor]
"""What gives the words of blocks 0, 1, ... from a key, a nonce and a number of blocks."""
KeystreamOn = Callable[[str], Keystream]
"""What gives that for a device."""
_Rows = tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]


def keystream(
    key: tf.Tensor, nonce: tf.Tensor, blocks: int | tf.Tensor, counter: int | tf.Tensor = 0
) -> tf.Tensor:
    """Returns consecutive blocks of the ChaCha20 key stream, words in the order of the RFC.

    The key is 256 bits, uint32 (8,), the first byte lowest, and the nonce 96 bits, uint32 (3,).
    Each block has 16 words. The first has the number `counter`; counter + blocks must not pass
    2^32. Returns uint32, (16 * blocks,). Source: RFC 8439, sections 2.3 and 2.4.
    """
    numbers = tf.cast(tf.range(blocks), tf.uint32) + tf.cast(counter, tf.uint32)
    ones = tf.ones([1, blocks], tf.uint32)
    start: _Rows = (
        tf.constant(_CONSTANTS, tf.uint32)[:, None] * ones,
        key[:4, None] * ones,
        key[4:, None] * ones,
        tf.concat([numbers[None], nonce[:, None] * ones], 0),
    )
    _, *end = tf.while_loop(
        lambda i, *rows: i < _ROUNDS // 2,
        lambda i, *rows: (i + 1, *_double_round(*rows)),
        (0, *start),
    )
    words = tf.concat([row + mixed for row, mixed in zip(start, end, strict=True)], 0)
    return tf.reshape(tf.transpose(words), [-1])


@functools.cache
def keystream_on(device: str) -> Keystream:
    """Returns `keystream` from counter 0 as one graph on the device, traced once a process.

    It is not inlined, so that a program with many draws has a small graph.
    """

    def compute(key: tf.Tensor, nonce: tf.Tensor, blocks: tf.Tensor) -> tf.Tensor:
        with tf.device(device):
            return keystream(key, nonce, blocks)

    signature = [
        tf.TensorSpec([8], tf.uint32),
        tf.TensorSpec([3], tf.uint32),
        tf.TensorSpec([], tf.int32),
    ]
    traced: Keystream = tf.function(
        compute,
        input_signature=signature,
        autograph=False,
        experimental_attributes={"_noinline": True},
    )
    return traced


def _double_round(a: tf.Tensor, b: tf.Tensor, c: tf.Tensor, d: tf.Tensor) -> _Rows:
    a, b, c, d = _quarter_rounds(a, b, c, d)
    a, b, c, d = _quarter_rounds(a, _turn(b, 1), _turn(c, 2), _turn(d, 3))
    return a, _turn(b, 3), _turn(c, 2), _turn(d, 1)


def _quarter_rounds(a: tf.Tensor, b: tf.Tensor, c: tf.Tensor, d: tf.Tensor) -> _Rows:
    a = a + b
    d = _rotate(tf.bitwise.bitwise_xor(d, a), 16)
    c = c + d
    b = _rotate(tf.bitwise.bitwise_xor(b, c), 12)
    a = a + b
    d = _rotate(tf.bitwise.bitwise_xor(d, a), 8)
    c = c + d
    b = _rotate(tf.bitwise.bitwise_xor(b, c), 7)
    return a, b, c, d


def _rotate(x: tf.Tensor, bits: int) -> tf.Tensor:
    high = tf.bitwise.left_shift(x, tf.constant(bits, tf.uint32))
    return tf.bitwise.bitwise_or(high, tf.bitwise.right_shift(x, tf.constant(32 - bits, tf.uint32)))


def _turn(row: tf.Tensor, places: int) -> tf.Tensor:
    return tf.gather(row, [(i + places) % 4 for i in range(4)])
