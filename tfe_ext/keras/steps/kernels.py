"""The host's kernels and biases as matrices and vectors, and back.

A kernel of a convolution is (height, width, in, out); its matrix is (out, in x height x width), in
the order of `extensions.network.stages.trained.Convolution`. A bias of one is (out, 1, 1).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from extensions.ring.fixed_point import Integers
from tfe_ext.ring.aby3_ring import ABY3Ring
from tfe_ext.ring.shares import Share


def matrix_of(ring: ABY3Ring, kernel: Share) -> Share:
    """Returns shares of a kernel's matrix, (out, in); local."""
    if len(kernel.shape) == 2:
        return kernel.T
    across = kernel.T  # (out, in, width, height)
    return ring.gather(across.reshape(across.shape[0], -1), _columns(kernel.shape))


def kernel_of(ring: ABY3Ring, matrix: Share, shape: Sequence[int]) -> Share:
    """Returns shares of the kernel of that shape, given those of its matrix; local."""
    if len(shape) == 2:
        return matrix.T
    across = ring.gather(matrix, np.argsort(_columns(shape)))
    return across.reshape(*reversed(shape)).T


def _columns(shape: Sequence[int]) -> Integers:
    """Where each column (in, row, column) of a matrix is in a kernel read from its end."""
    height, width, channels, _ = shape
    order = np.arange(channels * width * height, dtype=np.int64)
    return order.reshape(channels, width, height).transpose(0, 2, 1).reshape(-1)


def to_matrix(values: Any) -> tf.Tensor:
    """Returns an array of a kernel's shape as its matrix, and one of a bias as a vector; local."""
    if len(values.shape) == 4:
        return tf.reshape(tf.transpose(values, (3, 2, 0, 1)), (values.shape[3], -1))
    return tf.transpose(values) if len(values.shape) == 2 else tf.reshape(values, (-1,))


def from_matrix(values: Any, shape: Sequence[int]) -> tf.Tensor:
    """Returns the array of that shape of which `to_matrix` made this one; local."""
    if len(shape) == 4:
        height, width, channels, outputs = shape
        across = tf.reshape(values, (outputs, channels, height, width))
        return tf.transpose(across, (2, 3, 1, 0))
    return tf.transpose(values) if len(shape) == 2 else tf.reshape(values, shape)
