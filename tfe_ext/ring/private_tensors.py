"""Between the host's private tensors and the shares with which our protocols compute."""

from typing import TYPE_CHECKING, Any

import tensorflow as tf

from extensions.errors import ArgumentError
from tfe_ext.ring.aby3_ring import ABY3Ring
from tfe_ext.ring.shares import Replicated, Share

from tf_encrypted.protocol.aby3.aby3_tensors import ABY3PrivateTensor, ShareType

if TYPE_CHECKING:
    from tfe_ext.aby3.protocol import ABY3


def share_of(prot: "ABY3", x: Any, name: str = "x") -> Replicated:
    """Returns the shares of a private tensor of the protocol.

    Raises:
        ArgumentError: it is something else, or its values are not fixed-point.
    """
    if not isinstance(x, ABY3PrivateTensor):
        raise ArgumentError(
            name,
            type(x).__name__,
            "a private tensor of ABY3",
            "Share it with tfe.define_private_input(...), or compute in the clear if it is public.",
        )
    if x.prot is not prot:
        raise ArgumentError(
            name,
            "a tensor of another protocol object",
            "of the protocol whose method is called",
            "Share it again under the current protocol.",
        )
    if x.share_type != ShareType.ARITHMETIC:
        raise ArgumentError(
            name, f"a {x.share_type} sharing", "an arithmetic one", "Convert it with tfe.b2a(x)."
        )
    if not x.is_scaled:
        raise ArgumentError(
            name, "an unscaled tensor", "fixed-point", "Share it with apply_scaling=True."
        )
    if x.backing_dtype.native_type != tf.int64:
        raise ArgumentError(name, f"of {x.backing_dtype.native_type.name}", "of 64-bit shares")
    if not tf.TensorShape(x.shape).is_fully_defined():
        raise ArgumentError(
            f"{name}.shape", x.shape, "static", "Give the function an input signature without None."
        )
    servers = [server.device_name for server in prot.servers]
    return Replicated(servers, [share.value for pair in x.unwrapped for share in pair])


def tensor_of(ring: ABY3Ring, share: Share) -> ABY3PrivateTensor:
    """Returns the share as a private tensor of the host; one round, unless it is replicated."""
    ((x0, x1, y1, y2, z2, z0),) = [r.parts for r in ring.replicate([share])]
    factory = ring.prot.default_factory
    pairs = [[factory.tensor(part) for part in pair] for pair in ((x0, x1), (y1, y2), (z2, z0))]
    return ABY3PrivateTensor(ring.prot, pairs, True, ShareType.ARITHMETIC)


def to_replicated(prot: "ABY3", integers: tf.Tensor) -> Replicated:
    """Returns fresh shares of ring integers that the script has in the clear."""
    secret = prot.default_factory.tensor(integers)
    pairs = prot._share(secret, ShareType.ARITHMETIC)
    servers = [server.device_name for server in prot.servers]
    return Replicated(servers, [share.value for pair in pairs for share in pair])
