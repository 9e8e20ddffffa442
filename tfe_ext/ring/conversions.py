"""Additive shares become replicated ones, or are opened masked; one round for all at once."""

from collections.abc import Sequence

import tensorflow as tf

from tfe_ext.ring.placed import send
from tfe_ext.ring.shares import Replicated, Share
from tfe_ext.ring.xor_words import Words
from tfe_ext.streams.randomness import Servers


def replicate(servers: Servers, shares: Sequence[Share]) -> list[Replicated]:
    """Returns every share in replicated form; one round, or none if all are at hand.

    A share is converted once in a graph: 2 words an element of an additive share of two, 3 of
    three. Each server receives at most one word an element, uniform to it: see `_Two` and `_Three`.
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


def open_sum(shares: Sequence[Share]) -> list[Words]:
    """Returns masked values, in public between servers 0 and 1; one round for all of them.

    The shares are additive ones of z + r, where r is dealt for this opening.

    Guarantees:
        Of a value that servers 0 and 1 share, each receives the other's summand, in which it lacks
        the mask: a uniform word. Of a value that all three share, server 2 sends its summand z_2 +
        r - r_0 - r_1 to both, where r_0 and r_1 are the masks of the others and r is its own.
        Server 0 lacks r_1 and r, so the two words that it receives, z_1 + r_1 and z_2 + r - r_0 -
        r_1, are uniform and independent; so are those of server 1, which lacks r_0 and r. Server 2
        receives nothing.

    Cost:
        An element: 2 words, or 4 where all three servers share it.
    """
    on = shares[0].servers
    third = [share.parts[2] for share in shares if len(share.parts) == 3]
    from_2 = [iter(send(third, on[2], receiver)) for receiver in on[:2]]
    from_other = [send([share.parts[i] for share in shares], on[i], on[1 - i]) for i in (1, 0)]
    opened = []
    for j, share in enumerate(shares):
        parts = []
        for i in range(2):
            with tf.device(on[i]):
                total = share.parts[i] + from_other[i][j]
                parts.append(total + next(from_2[i]) if len(share.parts) == 3 else total)
        opened.append(Words(on, parts))
    return opened


def open_xor(words: Sequence[Words]) -> list[Words]:
    """Returns XOR-shared masked words, in public between servers 0 and 1; one round, 2 words each.

    What each server receives is uniform to it, since the words are masked.
    """
    on = words[0].servers
    other = [send([word.parts[i] for word in words], on[i], on[1 - i]) for i in (1, 0)]
    return [Words(on, [o[j] for o in other]) ^ word for j, word in enumerate(words)]
