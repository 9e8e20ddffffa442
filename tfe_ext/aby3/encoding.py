"""Fixed-point encodings for ABY3, which stay as they are, and numbers that have none."""

from typing import Any

import numpy as np
import tensorflow as tf

from extensions.errors import ArgumentError
from extensions.ring.fixed_point import check_frac_bits

import tf_encrypted as tfe
from tf_encrypted.tensor.fixed import FixedpointConfig


class Constant(FixedpointConfig):
    """The host's configuration, of which nothing can be changed: shares depend on it."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in vars(self):
            raise ArgumentError(
                f"fixedpoint_config.{name}",
                value,
                "shares and graphs depend on it",
                "Make another protocol: tfe_ext.ABY3(fixedpoint_config=...).",
                code="fixed",
            )
        super().__setattr__(name, value)


def fixed64(frac_bits: int) -> Constant:
    """Returns 64 bits with that many after the point; products are right while below 2^61."""
    return Constant(
        scaling_base=2,
        nbits=64,
        precision_integral=31 - frac_bits,
        precision_fractional=check_frac_bits(frac_bits),
        matmul_threshold=256,
        truncation_gap=0,
        use_noninteractive_truncation=False,
    )


fixed64_f20 = fixed64(20)
"""64 bits with 20 after the point; products are right while they stay below 2^22 in size."""


_LARGEST = 63
_WRONG = "NaN, infinity or too large"


def fitting(scaled: Any, frac_bits: int) -> Any:
    """Returns scaled numbers, all of which are finite and fit 64 bits.

    As integers NaN and infinity would be the least one, and larger numbers something else. A tensor
    is checked on its own device, which then tells the numbers of columns (the last axis) and
    nothing else of it. Raises ArgumentError with the owner and the columns that do not fit; in a
    graph this is TensorFlow's InvalidArgumentError, when it runs.
    """
    if not isinstance(scaled, tf.Tensor):
        numbers = np.atleast_1d(np.asarray(scaled, dtype=np.float64))
        fits = (np.abs(numbers) < 2.0**_LARGEST).all(axis=tuple(range(numbers.ndim - 1)))
        if not fits.all():
            raise _refusal("this process", np.flatnonzero(~fits), frac_bits)
        return scaled
    fit = tf.abs(scaled) < tf.constant(2.0**_LARGEST, scaled.dtype)
    fit = tf.reduce_all(fit, axis=list(range(max(0, fit.shape.rank - 1))))
    whose = _holder(scaled)
    if tf.executing_eagerly():
        if not tf.reduce_all(fit):
            raise _refusal(whose, np.flatnonzero(~fit.numpy()), frac_bits)
        return scaled
    # As numbers: TensorFlow makes "not less" into "at least", which NaN is neither.
    columns = tf.reshape(tf.where(tf.reshape(tf.cast(fit, tf.int32), [-1]) == 0), [-1])
    says = f"input of {whose}: {_WRONG} for {frac_bits} fractional bits, in columns"
    check = tf.raw_ops.Assert(condition=tf.reduce_all(fit), data=[says, columns], summarize=20)
    with tf.control_dependencies([check]):
        return tf.identity(scaled)


def _refusal(whose: str, columns: Any, frac_bits: int) -> ArgumentError:
    return ArgumentError(
        f"input of {whose}",
        f"columns {columns.tolist()}",
        f"finite, and below 2^{_LARGEST - frac_bits} in magnitude",
        "Impute or rescale these columns.",
        code="data",
    )


def _holder(tensor: tf.Tensor) -> str:
    """Returns the name of the player on whose device a tensor is."""
    device = tf.DeviceSpec.from_string(tensor.device)
    names = [
        player.name
        for player in tfe.get_config().players
        if tf.DeviceSpec.from_string(player.device_name) == device
    ]
    return names[0] if len(names) == 1 else "this process"
