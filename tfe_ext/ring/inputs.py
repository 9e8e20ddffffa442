"""What a device has in the clear becomes shares, in one round; and servers draw noise.

Protocol 2 in ABY3: each server draws its own summand, whenever the graph runs.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

from extensions.privacy.randomness import SystemSource
from extensions.ring.fixed_point import Integers
from extensions.ring.interface import NoiseSource
from tfe_ext.ring.placed import concatenate, send
from tfe_ext.ring.shares import Additive3, Replicated
from tfe_ext.streams import chacha
from tfe_ext.streams.chacha import BLOCK, KeystreamOn
from tfe_ext.streams.devices import in_this_process, reshape, split
from tfe_ext.streams.gaussian import discrete_gaussian
from tfe_ext.streams.randomness import Draw, Servers, Stream, bits_of, from_words


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


def seeds_on(draw: Draw, sender: str, receivers: Sequence[str]) -> dict[str, tf.Tensor]:
    """Returns, by device, a fresh key (8,) that the sender draws and sends to each receiver.

    It is eight int32 values of the sender's private stream.
    """
    with tf.device(sender):
        seed = tf.bitcast(draw.on(sender), tf.uint32)
    seeds = {sender: seed}
    for receiver in receivers:
        if receiver != sender:
            with tf.device(receiver):
                seeds[receiver] = tf.identity(seed)
    return seeds


def expand_seed(
    seed: tf.Tensor,
    shape: tf.TensorShape,
    dtype: tf.DType,
    device: str,
    keystream_on: KeystreamOn = chacha.keystream_on,
) -> tf.Tensor:
    """Returns a uniform tensor from a key that serves this one time, computed on the device."""
    words = -(-math.prod(shape.as_list()) * bits_of(dtype) // 32)
    with tf.device(device):
        blocks = tf.constant(-(-words // BLOCK), tf.int32)
        stream = keystream_on(device)(seed, tf.zeros([3], tf.uint32), blocks)
        return from_words(stream[:words], shape, dtype)


def draw_noise(
    servers: Servers, source: NoiseSource, scale: Sequence[float], shapes: Sequence[tuple[int, ...]]
) -> list[Additive3]:
    """Returns, for each shape, noise of which every server knows its own summand; local.

    Nothing is drawn while a function is traced: each run of its graph draws anew. The scale is the
    standard deviation of one summand in ring units. `SystemSource` stands for each server's own
    stream, from which it draws in the graph, on its own device; any other source is asked in this
    process.
    """
    columns = [
        _drawn(servers.private[on], on, scale, shapes)
        if type(source) is SystemSource
        else _ask(source, i, on, scale, shapes)
        for i, on in enumerate(servers.devices)
    ]
    return [Additive3(servers.devices, parts) for parts in zip(*columns, strict=True)]


def _drawn(
    stream: Stream, device: str, scale: Sequence[float], shapes: Sequence[tuple[int, ...]]
) -> list[tf.Tensor]:
    """Returns a server's summands of its own stream; those of one scale are drawn together."""
    drawn: dict[int, tf.Tensor] = {}
    for each in sorted(set(scale)):
        places = [i for i, own in enumerate(scale) if own == each]
        sizes = [math.prod(shapes[i]) for i in places]
        values = discrete_gaussian(stream, device, each, [sum(sizes)])
        for i, part in zip(places, split(values, sizes, device), strict=True):
            drawn[i] = reshape(part, shapes[i], device)
    return [drawn[i] for i in range(len(shapes))]


def _ask(
    source: NoiseSource,
    party: int,
    device: str,
    scale: Sequence[float],
    shapes: Sequence[tuple[int, ...]],
) -> list[tf.Tensor]:
    def gaussian() -> list[Integers]:
        return [source.gaussian(party, s, shape) for s, shape in zip(scale, shapes, strict=True)]

    with tf.device(in_this_process(device)):
        drawn = tf.numpy_function(gaussian, [], [tf.int64] * len(shapes), stateful=True)
        pairs = zip(tf.nest.flatten(drawn), shapes, strict=True)
        known = [tf.ensure_shape(tensor, shape) for tensor, shape in pairs]
    with tf.device(device):
        return [tf.identity(tensor) for tensor in known]
