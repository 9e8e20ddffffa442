"""The operations of ABY3 that TF Encrypted gets wrong, or computes with native code it lacks.

`ABY3.dispatch` looks here first, by TF Encrypted's names. Each function takes the protocol first
and leaves every share on its server's device.
"""

import operator
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from extensions.errors import ArgumentError, InsecureError
from extensions.rules import Whole
from tfe_ext.streams.devices import on_each

from tf_encrypted.protocol.aby3 import aby3 as host
from tf_encrypted.protocol.aby3.aby3_tensors import ABY3PrivateTensor, ABY3PublicTensor, ShareType
from tf_encrypted.tensor import factories


def _add_public_public(prot: Any, x: Any, y: Any) -> Any:
    """The sum of two public values, each copy on its server, where the host names no device."""
    assert x.is_scaled == y.is_scaled, "Cannot add tensors with different scales"
    values = on_each(prot.ring.servers.devices, operator.add, x.unwrapped, y.unwrapped)
    return ABY3PublicTensor(prot, values, x.is_scaled)


def _mul_private_private(prot: Any, x: Any, y: Any) -> Any:
    """Products; each output is masked on its own, where broadcasting shared one mask among many."""
    return host._mul_private_private(prot, _broadcast(prot, x, _joint_shape(x, y)), y)


def _mul_trunc2_private_private(prot: Any, x: Any, y: Any) -> Any:
    """As `_mul_private_private`, by the second method of the ABY3 paper."""
    return host._mul_trunc2_private_private(prot, _broadcast(prot, x, _joint_shape(x, y)), y)


def _and_private_private(prot: Any, x: Any, y: Any) -> Any:
    return host._and_private_private(prot, _broadcast(prot, x, _joint_shape(x, y)), y)


def _matmul_private_private(prot: Any, x: Any, y: Any) -> Any:
    """Matrix products, also of batches that broadcast; each output is masked on its own."""
    x_shape, y_shape = tf.TensorShape(x.shape), tf.TensorShape(y.shape)
    batch = tf.broadcast_static_shape(x_shape[:-2], y_shape[:-2])
    return host._matmul_private_private(prot, _broadcast(prot, x, batch + x_shape[-2:]), y)


def _joint_shape(x: Any, y: Any) -> tf.TensorShape:
    return tf.broadcast_static_shape(tf.TensorShape(x.shape), tf.TensorShape(y.shape))


def _broadcast(prot: Any, x: Any, shape: tf.TensorShape) -> Any:
    if tf.TensorShape(x.shape) == shape:
        return x

    def broadcast(pair: Sequence[Any]) -> list[Any]:
        return [s.factory.tensor(tf.broadcast_to(s.value, shape)) for s in pair]

    shares = on_each(prot.ring.servers.devices, broadcast, x.unwrapped)
    return ABY3PrivateTensor(prot, shares, x.is_scaled, x.share_type)


def _bit_gather_private(prot: Any, x: Any, start: int, stride: int) -> Any:
    assert x.is_boolean(), x.share_type
    return _on_shares(prot, x, lambda pair: bit_gather(pair, start, stride))


def _bit_gather_public(prot: Any, x: Any, start: int, stride: int) -> Any:
    return _on_values(prot, x, lambda value: bit_gather(value, start, stride))


def _bit_split_and_gather_private(prot: Any, x: Any, stride: int) -> Any:
    assert x.is_boolean(), x.share_type
    return _on_shares(prot, x, lambda pair: bit_split_and_gather(pair, stride), axis=1)


def _bit_split_and_gather_public(prot: Any, x: Any, stride: int) -> Any:
    return _on_values(prot, x, lambda value: bit_split_and_gather(value, stride))


def _bit_reverse_private(prot: Any, x: Any) -> Any:
    assert x.is_boolean(), x.share_type
    return _on_shares(prot, x, bit_reverse)


def _xor_indices_private(prot: Any, x: Any) -> Any:
    assert x.is_boolean(), x.share_type
    return _on_shares(prot, x, xor_indices)


def _on_shares(prot: Any, x: Any, change: Callable[[tf.Tensor], tf.Tensor], axis: int = 0) -> Any:
    """Each server's two shares are changed at once, stacked along axis 0, split along `axis`."""

    def changed(pair: Sequence[Any]) -> list[Any]:
        parts = tf.unstack(change(tf.stack([share.value for share in pair])), axis=axis)
        return [x.backing_dtype.tensor(part) for part in parts]

    shares = on_each(prot.ring.servers.devices, changed, x.unwrapped)
    return ABY3PrivateTensor(prot, shares, x.is_scaled, x.share_type)


def _on_values(prot: Any, x: Any, change: Callable[[tf.Tensor], tf.Tensor]) -> Any:

    def changed(copy: Any) -> Any:
        return copy.factory.tensor(change(copy.value))

    values = on_each(prot.ring.servers.devices, changed, x.unwrapped)
    return ABY3PublicTensor(prot, values, x.is_scaled)


def _truncate_local_private(prot: Any, x: Any, amount: int | None) -> Any:
    """X / 2^amount within an ulp, wrong by 2^(width - amount) with probability |x| / 2^(width - 1).

    One round, 2 words. Source: Mohassel and Rindal, ABY3 (2018), section 5.1, "Trunc1".
    """
    assert x.is_arithmetic(), x.share_type
    if amount is None:
        amount = prot.fixedpoint_config.precision_fractional
    servers = prot.ring.servers
    mask = servers.pairwise[2].draw(x.shape, x.backing_dtype.native_type)
    device = servers.devices
    (x0, _), (x1, x2), _ = x.unwrapped
    with tf.device(device[0]):
        y0 = x0.right_shift(amount)
    with tf.device(device[1]):
        y2_on_1 = x.backing_dtype.tensor(mask.on(device[1]))
        y1 = (x1 + x2).right_shift(amount) - y2_on_1
    with tf.device(device[0]):
        on_0 = [y0, y1.identity()]
    with tf.device(device[2]):
        on_2 = [x.backing_dtype.tensor(mask.on(device[2])), y0.identity()]
    shares = [on_0, [y1, y2_on_1], on_2]
    return ABY3PrivateTensor(prot, shares, x.is_scaled, ShareType.ARITHMETIC)


def _truncate_msb0_secureq8_private(prot: Any, x: Any, amount: int | None) -> Any:
    """X / 2^amount within an ulp, for 0 <= x < 2^(width - 1); two rounds, 7 words.

    Server 2 deals a random r with shares of r >> amount and of its top bit to servers 0 and 1, who
    open x + r and go on as two parties. Source: Dalskov, Escudero and Keller, "Secure Evaluation of
    Quantized Neural Networks" (2020).
    """
    assert x.is_arithmetic(), x.share_type
    if amount is None:
        amount = prot.fixedpoint_config.precision_fractional
    ring = x.backing_dtype
    top = ring.nbits - 1
    shape = tf.TensorShape(x.shape)
    servers = prot.ring.servers
    device = servers.devices
    (x0, x1), (_, x2), _ = x.unwrapped
    shared_02 = servers.pairwise[0].draw([4, *shape], ring.native_type)
    shared_12 = servers.pairwise[2].draw(shape, ring.native_type)
    secret = servers.private[device[2]].draw(shape, ring.native_type)

    with tf.device(device[2]):
        r0, quotient0, top0, y0_on_2 = _parts(ring, shared_02.on(device[2]))
        y2_on_2 = ring.tensor(shared_12.on(device[2]))
        r = ring.tensor(secret.on(device[2]))
        r_top = r.logical_rshift(top)
        r1 = r - r0
        quotient1 = (r.logical_rshift(amount) - (r_top << (top - amount))) - quotient0
        top1 = r_top - top0

    with tf.device(device[0]):
        r0, quotient0, top0, y0 = _parts(ring, shared_02.on(device[0]))
        masked0 = x0 + x1 + r0
    with tf.device(device[1]):
        y2 = ring.tensor(shared_12.on(device[1]))
        masked1 = x2 + r1.identity()
        quotient1, top1 = quotient1.identity(), top1.identity()

    # The top bit of x + r differs from that of r iff the sum of their lower bits reaches it.
    with tf.device(device[0]):
        masked = masked0 + masked1.identity()
        flipped = masked.logical_rshift(top).cast(factories[tf.bool]).value
        carry0 = ring.where(flipped, 1 - top0, top0)
        part0 = _without_top(masked, amount) - quotient0 + (carry0 << (top - amount)) - y0
    with tf.device(device[1]):
        masked = masked0.identity() + masked1
        flipped = masked.logical_rshift(top).cast(factories[tf.bool]).value
        carry1 = ring.where(flipped, -top1, top1)
        part1 = (carry1 << (top - amount)) - quotient1 - y2
        on_1 = [part0.identity() + part1, y2]
    with tf.device(device[0]):
        on_0 = [y0, part0 + part1.identity()]
    shares = [on_0, on_1, [y2_on_2, y0_on_2]]
    return ABY3PrivateTensor(prot, shares, x.is_scaled, ShareType.ARITHMETIC)


def _truncate_msb0_cheetah_private(prot: Any, x: Any, amount: int | None) -> Any:
    """Raises InsecureError: the host's code replays its masks."""
    raise InsecureError(
        'truncate_msb0(method="cheetah") would draw from replayed masks. Use "secureq8".'
    )


def _parts(ring: Any, stacked: tf.Tensor) -> list[Any]:
    return [ring.tensor(part) for part in tf.unstack(stacked)]


def _without_top(x: Any, amount: int) -> Any:
    """The bits below the top one, shifted right."""
    return (x << 1).logical_rshift(amount + 1)


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
