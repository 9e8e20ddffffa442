"""How often the parties' shares of a word wrap around when they are added as signed integers.

CrypTen's division takes that. Carries come from an adder of six levels (Kogge and Stone, IEEE
Trans. Comput. 22, 1973), one party's share after the other.
"""

import numpy as np

from extensions.ring.fixed_point import RING_BITS, Integers
from extensions.two_party.pairwise.bits import ands
from extensions.two_party.pairwise.peers import Peers
from extensions.two_party.pairwise.rounds import Making
from extensions.two_party.pairwise.transfers import WORD_BYTES, bits_of_words
from extensions.two_party.pairwise.words import integers_of_bits

_DISTANCES = (1, 2, 4, 8, 16, 32)
_SIGN = RING_BITS - 1


def count_wraps(peers: Peers, share: Integers) -> Making[Integers]:
    """Returns additive shares of (sum of the parties' signed shares - signed value) / 2^64.

    With signs s_i of the shares, s of the value and carries c of their unsigned sum, that is
    c + s - sum s_i, of which each party knows its own sign.

    Cost:
        14 (n - 1) + 2 (n - 1) rounds; 3.6 kB a word from each party to each other one and addition.
    """
    nothing = np.zeros_like(share)
    total, carries = share if peers.is_first else nothing, []
    for rank in range(1, peers.parties):
        total, carry = yield from _added(peers, total, share if peers.rank == rank else nothing)
        carries.append(carry)
    bits = np.stack([bits_of_words(word)[..., _SIGN] for word in (total, *carries)], axis=-1)
    kept = np.full(peers.parties, WORD_BYTES)
    integers = yield from integers_of_bits(peers, bits, kept)
    wraps: Integers = integers.sum(axis=-1) + (share >> _SIGN)
    return wraps


def _added(peers: Peers, x: Integers, y: Integers) -> Making[tuple[Integers, Integers]]:
    """Returns XOR shares of x + y, and of words whose top bit is the carry."""
    passes = x ^ y
    (carries,) = yield from ands(peers, x, y[None])
    both = passes
    for distance in _DISTANCES:
        of_carries, both = yield from ands(
            peers, both, np.stack([carries << distance, both << distance])
        )
        carries = carries ^ of_carries
    return passes ^ (carries << 1), carries
