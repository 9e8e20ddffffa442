"""What one server sends another at once: tensors of one type, packed into one message."""

import math
from collections.abc import Sequence

import tensorflow as tf


def send(tensors: Sequence[tf.Tensor], sender: str, receiver: str) -> list[tf.Tensor]:
    """Returns the tensors on the receiver's device, after one message.

    Args:
        tensors: on the sender's device, of static shapes.
        sender: name of the device.
        receiver: likewise.
    """
    if not tensors:
        return []
    if len(tensors) == 1:
        with tf.device(receiver):
            return [tf.identity(tensors[0])]
    with tf.device(sender):
        packed = tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], 0)
    with tf.device(receiver):
        received = tf.identity(packed)
        sizes = [math.prod(tensor.shape.as_list()) for tensor in tensors]
        pieces = tf.split(received, sizes)
        return [tf.reshape(p, t.shape) for p, t in zip(pieces, tensors, strict=True)]
