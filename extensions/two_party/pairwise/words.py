"""Words that are shared additively, from bits shared by XOR, and products of them.

The XOR of b and c is b + c - 2 b c: bits become integers one party after the other, each of which
chooses by its own bit between what the others have of both results (Demmler, Schneider and Zohner,
NDSS 2015, for two). A product of words is one by all bits of a factor (Gilboa, CRYPTO 1999).
"""

from functools import partial

import numpy as np

from extensions.ring.fixed_point import RING_BITS, Integers
from extensions.two_party.oblivious_transfer.blocks import Bytes
from extensions.two_party.pairwise.peers import Peers
from extensions.two_party.pairwise.rounds import Making
from extensions.two_party.pairwise.transfers import (
    WORD_BYTES,
    Additive,
    Pairs,
    all_pairs,
    bits_of_words,
    downwards,
    products,
)

PLACES = np.arange(RING_BITS)
BIT_BYTES, PRODUCT_BYTES = 256, 288
"""A chooser sends so many for a word by all of whose bits it chooses, a sender for each product."""


_ALL = np.array([WORD_BYTES])


def kept_of_masks() -> Integers:
    """Returns how many bytes of a word count when it is multiplied by 2^place, (64,)."""
    return -(-(RING_BITS - PLACES) // WORD_BYTES)


def kept_of_truncatable(shift: int) -> Integers:
    """Returns how many bytes count if it is multiplied by 2^(place - shift) too, or is the top."""
    bits = RING_BITS - np.where(shift > PLACES, PLACES, PLACES - shift)
    bits[-1] = RING_BITS
    return -(-bits // WORD_BYTES)


def integers_of_bits(peers: Peers, bits: Bytes, kept: Integers) -> Making[Integers]:
    """Returns additive shares, modulo 256^kept, of bits that are shared by XOR.

    `bits` are bytes 0 or 1, (..., places); `kept` says how many bytes of each place are needed.

    Cost:
        2 (n - 1) rounds; of each two parties one sends 4 bytes a bit, the other `kept`.
    """
    flat = bits.reshape(-1)
    form = Additive(1, kept, flat.size // max(1, len(kept)))
    share = flat.astype(np.int64) * peers.is_first
    for chooser in range(1, peers.parties):
        # s + b (1 - 2 s), where those before the chooser share s.
        differences = np.int64(peers.is_first) - 2 * share
        found = yield from products(peers, form, flat, differences[None], partial(_before, chooser))
        share = share + found[0]
    return share.reshape(bits.shape)


def times_bits(peers: Peers, bits: Bytes, words: Integers) -> Making[Integers]:
    """Returns additive shares of bit times word, for bits shared by XOR and words additively.

    Bits are bytes 0 or 1, (count,); words are (columns, count).

    Cost:
        2 n rounds; to each other party 4 bytes a bit, and 8 a word.
    """
    form = Additive(len(words), _ALL, bits.size)
    share = np.zeros_like(words)
    for chooser in range(peers.parties):
        # s + b (w - 2 s), where all share w and s.
        differences = words - 2 * share
        found = yield from products(peers, form, bits, differences, partial(_only, chooser))
        own = differences * bits if peers.rank == chooser else 0
        share = share + found + own
    return share


def times_words(peers: Peers, x: Integers, ys: Integers) -> Making[Integers]:
    """Returns additive shares of x y for each y of ys, (columns, count), given additive shares.

    Cost:
        Two rounds; to each other party 256 bytes a word of x, and 288 a word of ys.
    """
    return x * ys + (yield from _by_all_bits(peers, x, ys, all_pairs))


def squares(peers: Peers, x: Integers) -> Making[Integers]:
    """Returns additive shares of x^2, given those of x, (count,).

    Cost:
        Two rounds; of each two parties one sends 256 bytes a word, the other 288.
    """
    found = yield from _by_all_bits(peers, x, 2 * x[None], downwards)
    total: Integers = x * x + found[0]
    return total


def _by_all_bits(peers: Peers, x: Integers, ys: Integers, pairs: Pairs) -> Making[Integers]:
    form = Additive(len(ys), kept_of_masks(), x.size)
    each = np.repeat(ys, RING_BITS, axis=1)
    found = yield from products(peers, form, bits_of_words(x).reshape(-1), each, pairs)
    total: Integers = (found.reshape(len(ys), x.size, RING_BITS) << PLACES).sum(axis=-1)
    return total


def _only(one: int, chooser: int, sender: int) -> bool:
    return chooser == one


def _before(one: int, chooser: int, sender: int) -> bool:
    return sender < chooser == one
