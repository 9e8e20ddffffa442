"""Protocol 2 in ABY3: each server draws its own summand, whenever the graph runs."""

import math
from collections.abc import Sequence

import tensorflow as tf

from extensions.privacy.randomness import SystemSource
from extensions.ring.fixed_point import Integers
from extensions.ring.interface import NoiseSource
from tfe_ext.ring.servers import Servers
from tfe_ext.ring.shares import Additive3
from tfe_ext.streams.devices import in_this_process
from tfe_ext.streams.gaussian import discrete_gaussian
from tfe_ext.streams.graphs import reshape, split
from tfe_ext.streams.randomness import Stream


def draw(
    servers: Servers,
    source: NoiseSource,
    scale: Sequence[float],
    shapes: Sequence[tuple[int, ...]],
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
