"""What one device has in the clear becomes replicated shares of the servers; one round."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

from tfe_ext.ring.messages import send
from tfe_ext.ring.placed import concatenate
from tfe_ext.ring.servers import Servers
from tfe_ext.ring.shares import Replicated
from tfe_ext.streams.seeds import expand_seed, seeds_on


def share_from(servers: Servers, tensors: Sequence[tf.Tensor], owner: str) -> list[Replicated]:
    """Returns shares of integers on the owner's device, fresh whenever the graph runs.

    The owner may be a server or anybody else.

    Guarantees:
        Server i as owner takes x_i from the key that it holds with server i - 1, sends server i + 1
        the rest, x_{i+1}, and x_{i+2} is zero. Server i + 1 lacks the key of x_i, so what it
        receives is uniform to it; server i - 1 holds x_i, which is uniform, and the zero. Another
        owner deals three uniform summands (`deal`).

    Cost:
        One round. An element: 1 word from a server; 2 from another owner.
    """
    if owner in servers.devices:
        return _from_server(servers, tensors, servers.devices.index(owner))
    return [deal(servers, tensor, owner) for tensor in tensors]


def share_rows(servers: Servers, own: Iterable[tuple[str, Sequence[Any]]]) -> list[Replicated]:
    """Returns shares of several owners' rows, one owner's after the other's, column by column.

    Each owner is a device and its columns, tensors or variables. One round; see `share_from`.
    """
    shares = []
    for device, columns in own:
        with tf.device(device):
            values = [
                each.read_value() if isinstance(each, tf.Variable) else each for each in columns
            ]
        shares.append(share_from(servers, values, device))
    return [concatenate(column) for column in zip(*shares, strict=True)]


def deal(
    servers: Servers,
    secret: tf.Tensor,
    owner: str,
    take: Callable[[tf.Tensor, tf.Tensor], tf.Tensor] = tf.subtract,
) -> Replicated:
    """Returns shares of a secret on the owner's device, fresh whenever the graph runs.

    Its type is any that can be drawn. `take` says what is left of a word without a share of it: the
    difference, or the XOR.

    Guarantees:
        The owner draws x_0 and x_1 and sends servers their seeds; x_2 is the rest. Each server
        lacks one of the three, and the two others are uniform to it.

    Cost:
        One round; 2 words an element and 3 seeds of 32 bytes.
    """
    on = servers.devices
    drawn = []
    for holders in ((on[0], on[2]), (on[0], on[1])):
        seeds = seeds_on(servers.private[owner].draw([8], tf.int32), owner, holders)
        drawn.append(
            {
                device: expand_seed(
                    seed, secret.shape, secret.dtype, device, servers.private.keystream_on
                )
                for device, seed in seeds.items()
            }
        )
    first, second = drawn
    with tf.device(owner):
        rest = take(take(secret, first[owner]), second[owner])
    (on_1,), (on_2,) = (send([rest], owner, device) for device in on[1:])
    parts = [first[on[0]], second[on[0]], second[on[1]], on_1, on_2, first[on[2]]]
    return Replicated(on, parts)


def _from_server(servers: Servers, tensors: Sequence[tf.Tensor], i: int) -> list[Replicated]:
    on = servers.devices
    after, before = (i + 1) % 3, (i + 2) % 3
    draws = [servers.pairwise[i].draw(tensor.shape, tf.int64) for tensor in tensors]
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
