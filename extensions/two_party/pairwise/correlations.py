"""The tuples of `extensions.ring.tuples` and `extensions.ring.joint`, made by the parties.

What is dealt as a word and its bits begins as bits here: each party draws words, whose XOR is the
mask, and these become integers. Shares of masks come first, then those of what follows.
"""

from collections.abc import Sequence

import numpy as np

from extensions.ring.comparison import LATER_MASKS, SUBTRAHENDS
from extensions.ring.fixed_point import Integers
from extensions.ring.joint import tops_meet
from extensions.ring.masked_opening import TOP
from extensions.ring.planes import LANES, WIDTHS, bits_of, planes, quarter, unpacked, without_signs
from extensions.ring.tuples import (
    BitWords,
    Correlation,
    RandomPlanes,
    RandomWords,
    TruncationPair,
    WordMasks,
)
from extensions.two_party.oblivious_transfer.blocks import Bytes
from extensions.two_party.pairwise.bits import monomials_of
from extensions.two_party.pairwise.matrices import row_norms
from extensions.two_party.pairwise.peers import Peers
from extensions.two_party.pairwise.rounds import Making, together
from extensions.two_party.pairwise.transfers import WORD_BYTES, bits_of_words
from extensions.two_party.pairwise.words import (
    PLACES,
    integers_of_bits,
    kept_of_masks,
    kept_of_truncatable,
    times_bits,
    times_words,
)

Shape = Sequence[int]
Shares = list[Integers]


class Truncatable:
    """Masks of which the bits are shared: `words` by XOR, the others additively.

    `r` are the masks, `low` their low 63 bits shifted right, and `top` their top bits.
    """

    def __init__(self, words: Integers, integers: Integers, shift: int) -> None:
        self.words = words
        self.r = (integers << PLACES).sum(axis=-1)
        self.low = (integers[..., shift:TOP] << PLACES[: TOP - shift]).sum(axis=-1)
        self.top = integers[..., TOP]

    @property
    def top_bits(self) -> Bytes:
        """XOR shares of the top bits, flat."""
        return bits_of_words(self.words)[..., TOP].reshape(-1)


def integers(peers: Peers, words: Integers) -> Making[Integers]:
    """Returns additive shares of words that are shared by XOR.

    Cost:
        2 (n - 1) rounds. Of each two parties one sends 256 bytes a word, the other 288.
    """
    each = yield from integers_of_bits(peers, bits_of_words(words), kept_of_masks())
    total: Integers = (each << PLACES).sum(axis=-1)
    return total


def truncatable(peers: Peers, words: Integers, shift: int) -> Making[Truncatable]:
    """Returns what a truncation by `shift` takes of masks that are shared by XOR.

    Cost:
        2 (n - 1) rounds. Of each two parties one sends 256 bytes a word, the other less than 512.
    """
    kept = kept_of_truncatable(shift)
    each = yield from integers_of_bits(peers, bits_of_words(words), kept)
    return Truncatable(words, each, shift)


def correlation(peers: Peers, wanted: Correlation, shape: Shape) -> Making[Shares]:
    """Returns shares of masks and of what follows, each with a leading axis for its words."""
    count = wanted.masks
    words = peers.draw((count, *shape))
    match wanted:
        case WordMasks(_, products):
            return [words, (yield from monomials_of(peers, list(words), products))]
        case RandomWords(products):
            r, found = yield from together(
                [integers(peers, words), monomials_of(peers, list(words), products)]
            )
            return [r, np.concatenate([words, found])]
        case RandomPlanes(products):
            own = planes(list(words), WIDTHS[0])
            r, found = yield from together(
                [integers(peers, words), monomials_of(peers, without_signs(own), products)]
            )
            return [r, np.concatenate([np.stack(own), found])]
        case TruncationPair(shift):
            assert isinstance(shift, int)  # what is asked for by name has no other
            one = yield from truncatable(peers, words[0], shift)
            return [one.r[None], np.stack([one.low, one.top])]
        case BitWords(positions):
            bits = bits_of_words(words[0])[..., list(positions)]
            kept = np.full(len(positions), WORD_BYTES)
            each = yield from integers_of_bits(peers, bits, kept)
            return [words, np.moveaxis(each, -1, 0)]


def selection(peers: Peers, count: int, kinds: int, shift: int) -> Making[Shares]:
    """Returns shares of `extensions.ring.joint.selection`."""
    size = quarter(count)
    first = quarter(kinds * size)
    words, flags = peers.draw((LANES, size)), peers.draw((quarter(first),))
    own = planes(list(words), WIDTHS[0])
    later = zip(LATER_MASKS, (first, quarter(first)), strict=True)
    (lanes, one), products, *levels = yield from together(
        [
            _masks_of_lanes(peers, words, count, shift),
            monomials_of(peers, without_signs(own), SUBTRAHENDS.products),
            *(correlation(peers, each, (wide,)) for each, wide in later),
        ]
    )
    d = unpacked(bits_of(flags, lambda places: places), kinds, count).astype(np.uint8)
    parts = [one.low, one.top] if isinstance(one, Truncatable) else [one]
    ones = np.full(count, int(peers.is_first))
    columns = np.stack([np.tile(part, kinds) for part in (ones, *parts)])
    found = yield from times_bits(peers, d.reshape(-1), columns)
    of_flags, *of_parts = found.reshape(-1, kinds, count)
    return [
        lanes,
        flags,
        *(masks for masks, _ in levels),
        np.concatenate([np.stack(own), products]),
        *(products for _, products in levels),
        of_flags,
        *(parts if shift else []),
        *of_parts,
    ]


def _masks_of_lanes(
    peers: Peers, words: Integers, count: int, shift: int
) -> Making[tuple[Integers, Truncatable | Integers]]:
    """Returns additive shares of the lanes, and of their elements what the flags multiply."""

    def elements(lanes: Integers) -> Integers:
        return lanes.T.reshape(-1)[:count]

    if not shift:
        lanes = yield from integers(peers, words)
        return lanes, elements(lanes)
    one = yield from truncatable(peers, words, shift)
    lanes = one.r
    one.low, one.top = elements(one.low), elements(one.top)
    return lanes, one


def truncations(
    peers: Peers, shapes: Sequence[Shape], shifts: Sequence[int], pairs: Sequence[Sequence[int]]
) -> Making[Shares]:
    """Returns shares of `extensions.ring.joint.truncations`."""
    each = yield from together(
        [
            truncatable(peers, peers.draw(tuple(shape)), shift)
            for shape, shift in zip(shapes, shifts, strict=True)
        ]
    )
    products = yield from together(
        [_product(peers, each[i], each[j], tops_meet(shifts[i], shifts[j])) for i, j in pairs]
    )
    own = [part for one in each for part in (one.low, one.top)]
    return [*(one.r for one in each), *own, *(part for one in products for part in one)]


def _product(peers: Peers, x: Truncatable, y: Truncatable, has_tops: bool) -> Making[Shares]:
    """Returns shares of low low, low top, top low and, where they are wanted, top top."""
    x_low, x_top, y_low = x.low.reshape(-1), x.top.reshape(-1), y.low.reshape(-1)
    of_y_top = [x_low, x_top] if has_tops else [x_low]
    lows, by_y_top, by_x_top = yield from together(
        [
            times_words(peers, x_low, y_low[None]),
            times_bits(peers, y.top_bits, np.stack(of_y_top)),
            times_bits(peers, x.top_bits, y_low[None]),
        ]
    )
    found = [lows[0], by_y_top[0], by_x_top[0], *by_y_top[1:]]
    return [part.reshape(x.low.shape) for part in found]


def scaled_rows(
    peers: Peers, rows: int, columns: Sequence[int], beside: Sequence[int], shift: int
) -> Making[Shares]:
    """Returns shares of `extensions.ring.joint.scaled_rows`."""
    matrices = [peers.draw((rows, width)) for width in (*columns, *beside)]
    one, *norms = yield from together(
        [
            truncatable(peers, peers.draw((rows,)), shift),
            *(row_norms(peers, matrix) for matrix in matrices),
        ]
    )
    scaled = matrices[: len(columns)]
    products: Shares = []
    if scaled:
        wide = np.concatenate(scaled, axis=1).T
        by_low, by_top = yield from together(
            [times_words(peers, one.low, wide), times_bits(peers, one.top_bits, wide)]
        )
        for start, width in zip(np.cumsum([0, *columns]), columns, strict=False):
            rows_of = slice(start, start + width)
            products += [by_low[rows_of].T, by_top[rows_of].T]
    return [one.r, *matrices, one.low, one.top, *norms, *products]
