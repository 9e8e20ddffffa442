"""Rearranged bits of signed integers, as TF Encrypted's native operations give them.

They are linear over XOR, so a server applies them to each of its boolean shares.
"""

import tensorflow as tf

from extensions.errors import ArgumentError
from extensions.rules import Whole


def bit_gather(x: tf.Tensor, start: int, stride: int) -> tf.Tensor:
    """Returns bits start, start + stride, start + 2 stride, ..., moved together to the low end.

    The stride is a power of two up to the width.
    """
    _check_stride(x, stride)
    Whole(0, stride - 1).check("start", start)
    return _every(_shift_right(x, start) if start else x, stride)


def bit_split_and_gather(x: tf.Tensor, stride: int) -> tf.Tensor:
    """Returns `bit_gather` from each start below the stride, along a new first axis."""
    _check_stride(x, stride)
    shifted = [_shift_right(x, start) if start else x for start in range(stride)]
    return _every(tf.stack(shifted), stride)


def bit_reverse(x: tf.Tensor) -> tf.Tensor:
    """Returns words whose bit i is bit (width - 1 - i) of the given ones."""
    distance = _width(x) // 2
    while distance:
        low = _constant(x, _blocks(_width(x), distance))
        high = tf.bitwise.left_shift(tf.bitwise.bitwise_and(x, low), _constant(x, distance))
        x = tf.bitwise.bitwise_or(high, tf.bitwise.bitwise_and(_shift_right(x, distance), low))
        distance //= 2
    return x


def xor_indices(x: tf.Tensor) -> tf.Tensor:
    """Returns the XOR of the positions of all bits that are set."""
    width = _width(x)
    places = width.bit_length() - 1
    all_bits = (1 << width) - 1
    # Row j keeps the bits whose position has bit j; its parity is bit j of the result.
    masks = [_signed(all_bits ^ _blocks(width, 1 << j), width) for j in range(places)]
    shape = [places] + [1] * x.shape.rank
    rows = tf.bitwise.bitwise_and(x[None], tf.reshape(tf.constant(masks, x.dtype), shape))
    distance = width // 2
    while distance:
        rows = tf.bitwise.bitwise_xor(rows, _shift_right(rows, distance))
        distance //= 2
    parity = tf.bitwise.bitwise_and(rows, _constant(x, 1))
    positions = tf.reshape(tf.range(places, dtype=tf.int32), shape)
    return tf.reduce_sum(tf.bitwise.left_shift(parity, tf.cast(positions, x.dtype)), 0)


def _check_stride(x: tf.Tensor, stride: int) -> None:
    width = _width(x)
    if stride < 1 or width % stride:
        raise ArgumentError("stride", stride, f"a power of two from 1 to {width}", code="range")


def _every(x: tf.Tensor, stride: int) -> tf.Tensor:
    while stride > 1:
        x = _even_bits(x)
        stride //= 2
    return x


def _even_bits(x: tf.Tensor) -> tf.Tensor:
    """Bits 0, 2, 4, ... in the low half; the high half is zero."""
    width = _width(x)
    x = tf.bitwise.bitwise_and(x, _constant(x, _blocks(width, 1)))
    distance = 1
    while distance < width // 2:
        x = tf.bitwise.bitwise_or(x, _shift_right(x, distance))
        x = tf.bitwise.bitwise_and(x, _constant(x, _blocks(width, 2 * distance)))
        distance *= 2
    return x


def _blocks(width: int, run: int) -> int:
    """Runs of one bits and of zero bits in turn, beginning with ones at the low end."""
    return sum(((1 << run) - 1) << place for place in range(0, width, 2 * run))


def _shift_right(x: tf.Tensor, places: int) -> tf.Tensor:
    """A logical shift: zeros come in from the left."""
    kept = (1 << (_width(x) - places)) - 1
    shifted = tf.bitwise.right_shift(x, _constant(x, places))
    return tf.bitwise.bitwise_and(shifted, _constant(x, kept))


def _constant(x: tf.Tensor, bits: int) -> tf.Tensor:
    return tf.constant(_signed(bits, _width(x)), x.dtype)


def _signed(bits: int, width: int) -> int:
    return bits - (1 << width) if bits >> (width - 1) else bits


def _width(x: tf.Tensor) -> int:
    return int(x.dtype.size) * 8
