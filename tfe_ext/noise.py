"""Protocol 2 in ABY3: each server draws its own summand, whenever the graph runs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import tensorflow as tf

from extensions.fixed_point import Integers
from extensions.randomness import NoiseSource

from .shares import Additive3

if TYPE_CHECKING:
    from .aby3 import ABY3


def draw(
    prot: "ABY3",
    source: NoiseSource,
    scale: Sequence[float],
    shapes: Sequence[tuple[int, ...]],
) -> list[Additive3]:
    """Returns, for each shape, noise of which every server knows its own summand; local.

    Nothing is drawn while a function is traced: each run of its graph draws anew.

    Args:
        prot: the protocol, whose servers run in this process.
        source: where noise comes from.
        scale: standard deviation of one summand, in ring units, for each shape.
        shapes: static shapes.
    """
    servers = [server.device_name for server in prot.servers]
    columns = [_draw(source, i, on, scale, shapes) for i, on in enumerate(servers)]
    return [Additive3(servers, parts) for parts in zip(*columns, strict=True)]


def _draw(
    source: NoiseSource,
    party: int,
    device: str,
    scale: Sequence[float],
    shapes: Sequence[tuple[int, ...]],
) -> list[tf.Tensor]:
    def gaussian() -> list[Integers]:
        return [source.gaussian(party, s, shape) for s, shape in zip(scale, shapes, strict=True)]

    with tf.device(device):
        drawn = tf.numpy_function(gaussian, [], [tf.int64] * len(shapes), stateful=True)
        pairs = zip(tf.nest.flatten(drawn), shapes, strict=True)
        return [tf.ensure_shape(tensor, shape) for tensor, shape in pairs]
