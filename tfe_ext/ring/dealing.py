"""What server 2 deals to servers 0 and 1: masks, and shares of words that follow from them.

Servers 0 and 1 expand their shares of a mask from the keys that each holds with server 2, which
therefore knows the mask and computes what follows from it. Of that, server 0 expands its share as
well, and server 2 sends server 1 the rest, the *correction*. No message depends on data, so all of
them are under way before they are needed, and cost no round.

Guarantees:
    A mask is uniform to server 0, which lacks the key of the other share, and so it is to server 1.
    A correction is uniform to server 1, because the share that server 0 expands is. Server 2
    receives nothing at all.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from extensions.ring.tuples import BitWords, Correlation, Dealt, Sharing
from tfe_ext.ring.messages import send
from tfe_ext.ring.placed import Placed
from tfe_ext.ring.servers import Servers
from tfe_ext.ring.shares import Additive2, Additive3, Share
from tfe_ext.ring.xor_words import DealersWords, Words
from tfe_ext.streams.graphs import split

Join = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
JOIN: dict[Sharing, Join] = {"sum": tf.add, "xor": tf.bitwise.bitwise_xor}
PART: dict[Sharing, Join] = {"sum": tf.subtract, "xor": tf.bitwise.bitwise_xor}
"""What is left of a word without a share of it."""


def deal(servers: Servers, wanted: Sequence[tuple[Correlation, Share | Words]]) -> list[Dealt]:
    """Returns fresh correlations, each to hide one value: see `extensions.ring.tuples`.

    Where server 2 has a summand of the value, it draws a share of the masks as well.

    Cost:
        No round; a word from server 2 to server 1 for each element that follows from the masks.
    """
    on = servers.devices
    drawn = [_draw(servers, correlation, value) for correlation, value in wanted]
    corrections = send([each.correction for each in drawn], on[2], on[1])
    dealt = []
    for (correlation, _), each, correction in zip(wanted, drawn, corrections, strict=True):
        masks = _join_parts(on, correlation.masks_by, each.masks)
        dependents = [each.dependents_0, correction]
        dealt.append(Dealt(masks, _join_parts(on, correlation.dependents_by, dependents)))
    return dealt


@dataclass(frozen=True)
class _Drawn:
    """Shares of the masks by server, server 0's of the dependents, and on server 2 server 1's."""

    masks: list[tf.Tensor]
    dependents_0: tf.Tensor
    correction: tf.Tensor


def _draw(servers: Servers, correlation: Correlation, value: Share | Words) -> _Drawn:
    on, sizes = servers.devices, [correlation.masks, correlation.dependents]
    drawn_0 = servers.pairwise[0].draw([sum(sizes), *value.shape], tf.int64)
    drawn_1 = servers.pairwise[2].draw([correlation.masks, *value.shape], tf.int64)
    mask_0, dependents_0 = split(drawn_0.on(on[0]), sizes, on[0])
    shares = [mask_0, drawn_1.on(on[1])]
    with tf.device(on[2]):
        mask_0, known = split(drawn_0.on(on[2]), sizes, on[2])
        mask_1 = drawn_1.on(on[2])
        if isinstance(value, Additive3) and value.additive2() is None:
            drawn_2 = servers.private[on[2]].draw([correlation.masks, *value.shape], tf.int64)
            masks = drawn_2.on(on[2])
            shares.append(masks - mask_0 - mask_1)
        else:
            masks = JOIN[correlation.masks_by](mask_0, mask_1)
        dependents = _follow(correlation, DealersWords(on, [masks]))
        return _Drawn(shares, dependents_0, PART[correlation.dependents_by](dependents, known))


def _follow(correlation: Correlation, masks: DealersWords) -> tf.Tensor:
    """Returns the dependents on a leading axis; one shift finds the bits at all positions."""
    if isinstance(correlation, BitWords):
        places = np.reshape(np.array(correlation.positions), (-1, *(1 for _ in masks.shape[1:])))
        return ((masks >> places) & 1).parts[0]
    return tf.stack([word.parts[0] for word in correlation.follow(list(masks))])


def _join_parts(on: Sequence[str], sharing: Sharing, shares: Sequence[tf.Tensor]) -> Placed:
    if sharing == "xor":
        return Words(on, shares)
    return (Additive2 if len(shares) == 2 else Additive3)(on, shares)
