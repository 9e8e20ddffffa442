"""What server 2 deals to servers 0 and 1: masks, and shares of words that follow from them.

Servers 0 and 1 expand their shares of a mask from the keys that each holds with server 2, which
therefore knows the mask and computes what follows from it. Of that, one of the two expands its
share as well, and server 2 sends the other one the rest, the *correction*. No message depends on
data, so all of them are under way before they are needed, and cost no round.

Guarantees:
    A mask is uniform to server 0, which lacks the key of the other share, and so it is to server 1.
    A correction is uniform to who receives it, because the share that the other one expands is.
    Server 2 receives nothing at all.
"""

import math
from collections.abc import Callable, Sequence

import tensorflow as tf

from extensions.ring.fixed_point import Integers
from extensions.ring.joint import Joint, Part, correlated
from extensions.ring.tuples import Correlation, Dealer, Dealt, Sharing
from extensions.ring.words import Word
from tfe_ext.ring.placed import Placed, send, stack
from tfe_ext.ring.shares import Additive2, Additive3, Mask, Share
from tfe_ext.ring.xor_words import DealersWords, Words
from tfe_ext.streams.devices import kept_on_graph, reshape, split
from tfe_ext.streams.randomness import Servers, Stream

Join = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
_SENT = "_tfe_ext_dealt"
JOIN: dict[Sharing, Join] = {"sum": tf.add, "xor": tf.bitwise.bitwise_xor}
PART: dict[Sharing, Join] = {"sum": tf.subtract, "xor": tf.bitwise.bitwise_xor}
"""What is left of a word without a share of it."""


class _Dealer:
    """`extensions.ring.tuples.Dealer` of server 2's words."""

    stack = staticmethod(stack)

    def constant(self, integers: Integers) -> Integers:
        return integers


def deal(servers: Servers, wanted: Sequence[tuple[Correlation, Share | Words]]) -> list[Dealt]:
    """Returns fresh correlations, each to hide one value (`extensions.ring.tuples`)."""
    correlations, values = zip(*wanted, strict=True)
    dealt = deal_joint(servers, correlated(correlations, [v.shape for v in values]), values)
    count = len(wanted)
    return [Dealt(*pair) for pair in zip(dealt[:count], dealt[count:], strict=True)]


def deal_joint(
    servers: Servers, joint: Joint, hidden: Sequence[Share | Words | None]
) -> list[Placed]:
    """Returns shares of fresh masks, then of what follows from them.

    For each mask `hidden` has the value that it is to hide, if servers have shares of it already.
    Where server 2 has a summand of the value, it draws a share of the mask as well.

    Guarantees:
        Who receives a correction lacks the key of what server 2 subtracts from a mask of three
        servers that it deals once more: that word is uniform to it, and independent of the mask.

    Cost:
        No round; a word from server 2 for each element that follows from the masks, and for each of
        a mask of three servers that is kept; about as many to server 0 as to server 1.
    """
    on, (first, _, second) = servers.devices, servers.pairwise
    of_three = [isinstance(z, Additive3) and z.additive2() is None for z in hidden]
    joint, again = _dealt_again(joint, of_three)
    count, side = len(joint.masks), _side(on, joint.dependents)
    drawn = [
        _Drawn(stream, [*joint.masks, *joint.dependents] if i == side else joint.masks)
        for i, stream in enumerate((first, second))
    ]
    at = [draw.on(on[i]) for i, draw in enumerate(drawn)]
    known = [draw.on(on[2]) for draw in drawn]
    masks, shares = [], []
    for i, part in enumerate(joint.masks):
        own = [at[0][i], at[1][i]]
        with tf.device(on[2]):
            if of_three[i]:
                mask = servers.private[on[2]].draw(part.shape, tf.int64).on(on[2])
                own.append(mask - known[0][i] - known[1][i])
            else:
                mask = JOIN[part.sharing](known[0][i], known[1][i])
        masks.append(DealersWords(on, [mask]))
        shares.append(_joined(on, part.sharing, own))
    words = joint.follow(masks, _Dealer())
    with tf.device(on[2]):
        corrections = [
            PART[part.sharing](word.parts[0], expanded)
            for part, word, expanded in zip(
                joint.dependents, words, known[side][count:], strict=True
            )
        ]
    received = send(corrections, on[2], on[1 - side])
    for part, *own in zip(joint.dependents, at[side][count:], received, strict=True):
        shares.append(_joined(on, part.sharing, own[::-1] if side else own))
    for i in reversed(again):
        hiding = shares[i]
        assert isinstance(hiding, Additive3)
        shares[i] = Mask(on, shares.pop().parts, hiding)
    return shares


def _side(on: Sequence[str], parts: Sequence[Part]) -> int:
    """Returns which of servers 0 and 1 expands its shares; the other one is sent the rest.

    It is the one that was sent more so far in this graph, so that both receive about as much.
    """
    sent: list[int] = kept_on_graph(_SENT).setdefault(on, [0, 0])
    side = int(sent[0] < sent[1])
    sent[1 - side] += sum(math.prod(part.shape) for part in parts)
    return side


def _dealt_again(joint: Joint, of_three: Sequence[bool]) -> tuple[Joint, list[int]]:
    """Returns what is dealt where masks that are kept are of three servers, and which masks are.

    Server 2 does not know what is opened. So such a mask is dealt to servers 0 and 1 once more, in
    other summands, at the end of the dependents.
    """
    again = [i for i, part in enumerate(joint.masks) if part.kept and of_three[i]]

    def follow(masks: list[Word], dealer: Dealer) -> list[Word]:
        return [*joint.follow(masks, dealer), *(masks[i] for i in again)]

    dependents = (*joint.dependents, *(joint.masks[i] for i in again))
    return Joint(joint.masks, dependents, follow), again


class _Drawn:
    """A share of every part, drawn at once and expanded by each of two servers."""

    def __init__(self, stream: Stream, parts: Sequence[Part]) -> None:
        self._shapes = [part.shape for part in parts]
        self._sizes = [math.prod(shape) for shape in self._shapes]
        self._draw = stream.draw([sum(self._sizes)], tf.int64)

    def on(self, device: str) -> list[tf.Tensor]:
        """Returns the shares on a device that holds the key."""
        pieces = split(self._draw.on(device), self._sizes, device)
        return [reshape(p, shape, device) for p, shape in zip(pieces, self._shapes, strict=True)]


def _joined(on: Sequence[str], sharing: Sharing, shares: Sequence[tf.Tensor]) -> Placed:
    if sharing == "xor":
        return Words(on, shares)
    return (Additive2 if len(shares) == 2 else Additive3)(on, shares)
