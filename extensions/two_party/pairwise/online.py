"""What two parties compute on shares of a value itself: truncation, and products by bits.

Where nothing is dealt beforehand this takes a transfer or two a value: a mask to open the value
under takes one for each of its bits, and as many again for a product.

Guarantees:
    Semi-honest security of `extensions.two_party.pairwise.transfers.products`: nothing is opened.
"""

import numpy as np

from extensions.errors import ArgumentError
from extensions.ring.fixed_point import Integers
from extensions.ring.masked_opening import OFFSET_BITS, TOP
from extensions.rules import Whole
from extensions.two_party.pairwise.peers import Peers
from extensions.two_party.pairwise.rounds import Making
from extensions.two_party.pairwise.transfers import (
    WORD_BYTES,
    Additive,
    all_pairs,
    downwards,
    products,
)


def truncated(peers: Peers, z: Integers, shift: int) -> Making[Integers]:
    """Returns shares of z / 2^shift, shift in 0..62, rounded to one of the two nearest integers.

    With z + 2^62 below 2^63 the two shares' sum wraps around exactly if either has its top bit set,
    and each party shifts its own share: one down, the other up. Shares are drawn anew first.

    Guarantees:
        For |z| < 2^62 the result is floor(z / 2^shift) or one more, with the expected value z /
        2^shift; there is no failure probability.

    Cost:
        Two rounds; a word takes 4 bytes of one party and one for every 8 of `shift` of the other.

    Raises:
        ArgumentError: not two parties, or a shift out of range.
        TransferError: a message is malformed; its sender is named.

    Source:
        Rathee et al., SIRNN, IEEE S&P 2021, truncation of values whose top bit is known; one of
        the parties rounding up is Mohassel and Zhang's, SecureML, IEEE S&P 2017.
    """
    _check_two(peers)
    Whole(0, TOP - 1).check("shift", shift)
    if not shift:
        return z
    offset = (1 << OFFSET_BITS) * peers.is_first
    words = (z + peers.zeros(z.shape, "sum") + np.int64(offset)).view(np.uint64)
    tops = words >> np.uint64(TOP)
    form = Additive(1, np.array([-(-shift // WORD_BYTES)]), z.size)
    own = tops.view(np.int64)
    both = yield from products(
        peers, form, tops.astype(np.uint8).reshape(-1), own.reshape(1, -1), downwards
    )
    shifted = (words >> np.uint64(shift)).view(np.int64)
    if not peers.is_first:
        shifted += (words & np.uint64((1 << shift) - 1)) != 0
    wraps = own - both.reshape(z.shape)
    result: Integers = shifted - (wraps << (TOP + 1 - shift)) - (offset >> shift)
    return result


def times_flags(peers: Peers, x: Integers, flags: Integers) -> Making[Integers]:
    """Returns shares of x b for b of 0 or 1, whose shares' last bits are a sharing by XOR.

    Cost:
        Two rounds; 12 bytes a value of each party.

    Raises:
        ArgumentError: not two parties.
        TransferError: a message is malformed; its sender is named.
    """
    _check_two(peers)
    own = flags & 1
    form = Additive(1, np.array([WORD_BYTES]), x.size)
    # x (b xor c) = x b + c (x - 2 x b), for the part of x, and the bit b, of either party.
    differences = (x - 2 * x * own).reshape(1, -1)
    crossed = yield from products(
        peers, form, own.astype(np.uint8).reshape(-1), differences, all_pairs
    )
    result: Integers = x * own + crossed.reshape(x.shape)
    return result


def _check_two(peers: Peers) -> None:
    if peers.parties != 2:
        raise ArgumentError("parties", peers.parties, "2", "More of them open masked words.")
