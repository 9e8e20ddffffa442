"""Additive shares become replicated ones, which products need; one round for all at once."""

from collections.abc import Sequence

import tensorflow as tf

from tfe_ext.ring.messages import send
from tfe_ext.ring.servers import Servers
from tfe_ext.ring.shares import Replicated, Share


def replicate(servers: Servers, shares: Sequence[Share]) -> list[Replicated]:
    """Returns every share in replicated form; one round, or none if all are at hand.

    A share is converted once in a graph, however often it is asked for.

    Guarantees:
        Each server receives at most one word an element, uniform to it: see `_Two` and `_Three`.

    Cost:
        An element of an additive share of two: 2 words; of three: 3 words.
    """
    missing = {id(share): share for share in shares if share.replicated is None}.values()
    moves = [(_Three if share.additive2() is None else _Two)(servers, share) for share in missing]
    links = sorted({link for move in moves for link in move.sent})
    received = {}
    for sender, receiver in links:
        moving = [move for move in moves if (sender, receiver) in move.sent]
        words = [move.sent[sender, receiver] for move in moving]
        ends = servers.devices[sender], servers.devices[receiver]
        for move, word in zip(moving, send(words, *ends), strict=True):
            received[move, sender, receiver] = word
    for share, move in zip(missing, moves, strict=True):
        own = {link: received[move, *link] for link in move.sent}
        share.remember(Replicated(share.servers, move.finish(own)))
    return [replicated for share in shares if (replicated := share.replicated) is not None]


class _Two:
    """x = y_0 + y_1 becomes z_0 + z_1 + z_2 with z_1 = (y_0 - z_0) + (y_1 - z_2).

    Servers 2 and 0 draw z_0, and servers 1 and 2 draw z_2. Servers 0 and 1 send each other their
    summand of z_1: to server 1 the word y_0 - z_0 is uniform, since it lacks the key of z_0, and
    so is y_1 - z_2 to server 0. Server 2 receives nothing.
    """

    def __init__(self, servers: Servers, share: Share) -> None:
        self._on = share.servers
        self._z_0 = servers.pairwise[0].draw(share.shape, tf.int64)
        self._z_2 = servers.pairwise[2].draw(share.shape, tf.int64)
        with tf.device(self._on[0]):
            self._own_0 = share.parts[0] - self._z_0.on(self._on[0])
        with tf.device(self._on[1]):
            self._own_1 = share.parts[1] - self._z_2.on(self._on[1])
        self.sent = {(0, 1): self._own_0, (1, 0): self._own_1}

    def finish(self, received: dict[tuple[int, int], tf.Tensor]) -> list[tf.Tensor]:
        first, second, third = self._on
        with tf.device(first):
            z_1_on_0 = self._own_0 + received[1, 0]
        with tf.device(second):
            z_1_on_1 = received[0, 1] + self._own_1
        z_0, z_2 = self._z_0, self._z_2
        return [z_0.on(first), z_1_on_0, z_1_on_1, z_2.on(second), z_2.on(third), z_0.on(third)]


class _Three:
    """x = z_0 + z_1 + z_2 keeps its summands, each masked by a fresh summand of zero.

    That of server i is a_i - a_{i+1}, where servers i - 1 and i draw a_i. It sends its masked part
    to server i - 1, to which that is uniform, since it lacks the key of a_{i+1}.
    """

    def __init__(self, servers: Servers, share: Share) -> None:
        draws = [stream.draw(share.shape, tf.int64) for stream in servers.pairwise]
        self._own = []
        for i, device in enumerate(share.servers):
            with tf.device(device):
                zero = draws[i].on(device) - draws[(i + 1) % 3].on(device)
                self._own.append(share.parts[i] + zero)
        self.sent = {((i + 1) % 3, i): self._own[(i + 1) % 3] for i in range(3)}

    def finish(self, received: dict[tuple[int, int], tf.Tensor]) -> list[tf.Tensor]:
        pairs = [(self._own[i], received[(i + 1) % 3, i]) for i in range(3)]
        return [part for pair in pairs for part in pair]
