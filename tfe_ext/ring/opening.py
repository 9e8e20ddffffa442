"""Words that servers 0 and 1 open between them under dealt masks: one round."""

from collections.abc import Sequence

import tensorflow as tf

from tfe_ext.ring.messages import send
from tfe_ext.ring.shares import Share
from tfe_ext.ring.xor_words import Words


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
