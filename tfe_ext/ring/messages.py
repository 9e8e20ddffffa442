"""What one server sends another at once: tensors of one type, packed into one message."""

import math
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tfe_ext.streams.graphs import constant, reshape, split


def send(tensors: Sequence[tf.Tensor], sender: str, receiver: str) -> list[tf.Tensor]:
    """Returns the sender's tensors on the receiver's device, after one message."""
    if not tensors:
        return []
    if len(tensors) == 1:
        with tf.device(receiver):
            return [tf.identity(tensors[0])]
    sizes = [math.prod(tensor.shape.as_list()) for tensor in tensors]
    flat = [reshape(t, [size], sender) for t, size in zip(tensors, sizes, strict=True)]
    with tf.device(sender):
        packed = tf.concat(flat, constant(np.int32(0), sender))
    with tf.device(receiver):
        received = tf.identity(packed)
    pieces = split(received, sizes, receiver)
    return [reshape(p, t.shape, receiver) for p, t in zip(pieces, tensors, strict=True)]
