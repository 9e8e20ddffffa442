"""What an owner has in the clear becomes replicated shares of the servers; one round."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tfe_ext.ring.messages import send
from tfe_ext.ring.shares import Replicated

from tf_encrypted.protocol.aby3.aby3_tensors import ShareType

if TYPE_CHECKING:
    from tfe_ext.aby3.protocol import ABY3


def share_from(prot: "ABY3", tensors: Sequence[tf.Tensor], owner: Any) -> list[Replicated]:
    """Returns shares of integers that one player has, fresh whenever the graph runs.

    Args:
        prot: the protocol.
        tensors: int64, of static shapes, on the owner's device.
        owner: the player: a server, or anybody else.

    Guarantees:
        Server i as owner takes x_i from the key that it holds with server i - 1, sends server i + 1
        the rest, x_{i+1}, and x_{i+2} is zero. Server i + 1 lacks the key of x_i, so what it
        receives is uniform to it; server i - 1 holds x_i, which is uniform, and the zero. Another
        owner deals three uniform summands (`ABY3._share`).

    Cost:
        One round. An element: 1 word from a server; 2 from another owner.
    """
    on = [server.device_name for server in prot.servers]
    if owner.device_name in on:
        return _from_server(prot, tensors, on.index(owner.device_name))
    shares = []
    for tensor in tensors:
        secret = prot.default_factory.tensor(tensor)
        pairs = prot._share(secret, ShareType.ARITHMETIC, owner)
        shares.append(Replicated(on, [share.value for pair in pairs for share in pair]))
    return shares


def _from_server(prot: "ABY3", tensors: Sequence[tf.Tensor], i: int) -> list[Replicated]:
    on = [server.device_name for server in prot.servers]
    after, before = (i + 1) % 3, (i + 2) % 3
    draws = [prot.pairwise[i].draw(tensor.shape, tf.int64) for tensor in tensors]
    masks = [draw.on(on[i]) for draw in draws]
    with tf.device(on[i]):
        rests = [tensor - mask for tensor, mask in zip(tensors, masks, strict=True)]
    received = send(rests, on[i], on[after])
    shares = []
    for draw, mask, rest, arrived in zip(draws, masks, rests, received, strict=True):
        zeros = {}
        for place in (after, before):
            with tf.device(on[place]):
                zeros[place] = tf.zeros(rest.shape, tf.int64)
        pairs = {
            i: (mask, rest),
            after: (arrived, zeros[after]),
            before: (zeros[before], draw.on(on[before])),
        }
        shares.append(Replicated(on, [part for server in range(3) for part in pairs[server]]))
    return shares
