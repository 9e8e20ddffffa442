"""Between the host's private tensors and the shares with which our protocols compute."""

from typing import Any

import tensorflow as tf

from extensions.errors import ArgumentError
from tfe_ext.ring.aby3_ring import ABY3Ring
from tfe_ext.ring.shares import Replicated, Share

from tf_encrypted.protocol.aby3.aby3_tensors import ABY3PrivateTensor, ShareType


def share_of(ring: ABY3Ring, x: Any, name: str = "x") -> Replicated:
    """Returns the shares of a private tensor of the ring's protocol, which must be fixed-point."""
    if not isinstance(x, ABY3PrivateTensor):
        raise ArgumentError(
            name,
            type(x).__name__,
            "a private tensor of ABY3",
            "Share it with tfe.define_private_input(...), or compute in the clear if it is public.",
            code="type",
        )
    if getattr(x.prot, "ring", None) is not ring:
        raise ArgumentError(
            name,
            "a tensor of another protocol object",
            "of the protocol whose method you call",
            "Share it again under the current protocol.",
        )
    if x.share_type != ShareType.ARITHMETIC:
        advice = "Convert it with tfe.b2a(x)."
        raise ArgumentError(name, f"a {x.share_type} sharing", "an arithmetic one", advice)
    if not x.is_scaled:
        advice = "Share it with apply_scaling=True."
        raise ArgumentError(name, "an unscaled tensor", "fixed-point", advice)
    if x.backing_dtype.native_type != tf.int64:
        raise ArgumentError(name, f"of {x.backing_dtype.native_type.name}", "of 64-bit shares")
    if not tf.TensorShape(x.shape).is_fully_defined():
        advice = "Give the function an input signature without None."
        raise ArgumentError(f"{name}.shape", x.shape, "static", advice, code="shape")
    return Replicated(ring.servers.devices, [share.value for pair in x.unwrapped for share in pair])


def variables_of(variable: Any) -> Replicated:
    """Returns what holds a private variable of the host on its servers, as variables of theirs."""
    parts = [share.variable for pair in variable.unwrapped for share in pair]
    return Replicated(variable.prot.ring.servers.devices, parts)


def tensor_of(prot: Any, share: Share) -> ABY3PrivateTensor:
    """Returns the share as a private tensor of the protocol; one round, unless it is replicated."""
    (replicated,) = prot.ring.replicate([share])
    pairs = pairs_of(prot.default_factory, replicated)
    return ABY3PrivateTensor(prot, pairs, True, ShareType.ARITHMETIC)


def pairs_of(factory: Any, share: Replicated) -> list[list[Any]]:
    """Returns what each server holds as the host's tensors, made by the factory; local."""
    parts = [factory.tensor(part) for part in share.parts]
    return [parts[:2], parts[2:4], parts[4:]]
