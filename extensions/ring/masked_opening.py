"""Truncation, comparison and conversion of bits: a value is opened under a dealt mask.

To open z + r for a uniform r tells nothing about z. What is wanted of z follows from the public
word c = z + r and from what was dealt about r (`extensions.ring.tuples`): locally where it is
linear in r, or by the circuits of `extensions.ring.circuits`, which open words under masks again.
"""

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from extensions.ring import circuits
from extensions.ring.comparison import SUBTRAHENDS, signs
from extensions.ring.composed import Composed
from extensions.ring.fixed_point import RING_BITS, Integers, wrap
from extensions.ring.interface import Bits, Share
from extensions.ring.planes import LANES, bits_of, lanes, quarter, unpacked
from extensions.ring.tuples import BitWords, Correlation, Dealt, TruncationPair
from extensions.ring.words import Exponent, Places, Word, power, shift_right
from extensions.rules import Whole

OFFSET_BITS = 62
TOP = RING_BITS - 1


class Truncated(NamedTuple):
    """A value z / 2^m as a public word less a mask r': P - r', of r' = low - turn * top.

    Attributes:
        turn: what the mask's top bit counts, public: 2^(63 - m), added or taken.
    """

    public: Word
    turn: Word
    value: Share


class MaskedOpening(Composed):
    """The methods of `extensions.ring.interface.Ring` that open masked words.

    A host inherits them and adds local arithmetic, openings and a source of tuples; it may replace
    one by a faster way of its own. Its shares and bits do what `Ring` asks, and more: a share is
    multiplied by a public word, any word is shifted (`>>`) by what `constant` returns, and that is
    subtracted from a public word. Dealt shares can be iterated along their leading axis, and a list
    of places there picks some.

    Guarantees:
        Every opened word is uniform, whatever the secrets are, because it is the sum or the XOR of
        a value and a mask that `deal` made for this opening alone.
    """

    @abstractmethod
    def add_public(self, x: Share, value: Word | Integers | int) -> Share:
        """Returns shares of x + value for an opened word or for public ring integers; local."""

    @abstractmethod
    def xor_public(self, word: Bits, value: Word | int) -> Bits:
        """Returns shares of word ^ value for an opened word or a public integer; local."""

    @abstractmethod
    def concatenate(self, words: Sequence[Bits]) -> Bits:
        """Returns words, shared or opened, one after the other along their first axis; local."""

    @abstractmethod
    def constant(self, integers: Integers) -> Any:
        """Returns public integers as the host's words compute with them; local."""

    @abstractmethod
    def open_sum(self, shares: Sequence[Share]) -> list[Word]:
        """Returns masked values in public; one round for all of them."""

    @abstractmethod
    def open_xor(self, words: Sequence[Bits]) -> list[Word]:
        """Returns masked words in public; one round for all of them."""

    @abstractmethod
    def deal(self, wanted: Sequence[tuple[Correlation, Share | Bits]]) -> list[Dealt]:
        """Returns fresh correlations, each to hide one value: see `TupleSource`."""

    def pick(self, words: Bits, places: Places) -> Bits:
        """Returns words, shared or opened, at places of their first axis; local."""
        return words[places if isinstance(places, slice) else [*places]]

    def and_xor(
        self, words: Bits, left: Places, public: Word, right: Places, added: Places | None
    ) -> Bits:
        """Returns words[left] & public[right] ^ words[added], or without the last; local."""
        product = self.pick(words, left) & self.pick(public, right)
        if added is not None:
            product ^= self.pick(words, added)
        return product

    def factor(self, x: Share) -> Share:
        """Returns x as it is; a host that opens it for each product may return something else."""
        return x

    def truncate(self, items: Sequence[tuple[Share, int | Exponent]]) -> list[Share]:
        """Returns z / 2^m by the dealt mask r: z + 2^62 + r is opened, its wrap corrected locally.

        Guarantees:
            For |z| < 2^62 the result is floor(z / 2^m) or one more, with the expected value z /
            2^m; there is no failure probability.

        Cost:
            One round; one word opened for each element.

        Source:
            Dalskov, Escudero and Keller 2020.
        """
        for _, shift in items:
            if isinstance(shift, int):
                Whole(0, TOP - 1).check("shift", shift)
        dealt = self.deal([(TruncationPair(shift), z) for z, shift in items])
        opened = self.open_offset([z + r for (z, _), ((r,), _) in zip(items, dealt, strict=True)])
        return [
            self.shift_opened(c, shift, *dependents).value
            for c, (_, shift), (_, dependents) in zip(opened, items, dealt, strict=True)
        ]

    def open_offset(self, hidden: Sequence[Share]) -> list[Word]:
        """Returns z + 2^62 + r in public for each z + r, as `shift_opened` takes it; one round."""
        return self.open_sum([self.add_public(h, 1 << OFFSET_BITS) for h in hidden])

    def shift_opened(self, c: Word, shift: int | Exponent, low: Share, top: Share) -> Truncated:
        """Returns floor(z / 2^m) or one more, from public c = z + 2^62 + r; local.

        As unsigned integers r and c differ by z + 2^62, less 2^64 where that wrapped: where the top
        bit of c is 0 and that of r is 1. So z + 2^62 = (c - r's low 63 bits) - 2^63 [top of r], up
        to the sign of the last term, which the top bit of c tells.

        Args:
            low: shares of r's low 63 bits, shifted by m.
            top: shares of its top bit.
        """
        public = shift_right(c, shift) - power(OFFSET_BITS - shift)
        turn = ((c >> TOP) | 1) * power(TOP - shift)
        return Truncated(public, turn, self.add_public(top * turn - low, public))

    def bit_decompose(self, x: Share) -> Bits:
        """Returns the 64 two's-complement bits of x; 3 rounds.

        x + r is opened, r uniform and dealt with its bits: x = c - r.
        """
        (((r,), dependents),) = self.deal([(circuits.SUBTRAHEND, x)])
        (c,) = self.open_sum([x + r])
        return circuits.subtract_words(self, c, dependents[0], dependents[1:])

    def less_than(self, x: Share, thresholds: Sequence[int]) -> Share:
        """Returns [x < t] as integers on a leading axis; 4 rounds.

        Cost:
            An element: one word opened, and for each threshold 7/16 + 7/64 of one; dealt are 15/4
            words, and for each threshold 22/16 + 15/64 + 1.
        """
        flags = self._signs_below(x, thresholds)
        bits = self.bits_to_arithmetic(flags, range(RING_BITS))
        count = math.prod(x.shape)
        return unpacked(bits.T, len(thresholds), count).reshape(len(thresholds), *x.shape)

    def less_than_bits(self, x: Share, threshold: int) -> Bits:
        """Returns words whose bit 0 is [x < t]; 3 rounds."""
        flags = self._signs_below(x, [threshold])
        bits = unpacked(bits_of(flags, self.constant), 1, math.prod(x.shape))
        return bits.reshape(tuple(x.shape))

    def _signs_below(self, x: Share, thresholds: Sequence[int]) -> Bits:
        """Returns the signs of x - t for each public t, as `extensions.ring.comparison.signs` does.

        x + r is opened once for all t (r uniform and dealt with its bits): x - t = c - t - r.
        """
        count = math.prod(x.shape)
        size = quarter(count)
        flat = x.reshape(count)
        ((masks, dependents),) = self.deal([(SUBTRAHENDS, flat[:size])])
        (c,) = self.open_sum([flat + masks.T.reshape(LANES * size)[:count]])
        return self.signs_below(c, thresholds, dependents)

    def signs_below(
        self, c: Word, thresholds: Sequence[int], dealt: Bits, later: Sequence[Dealt] | None = None
    ) -> Bits:
        """Returns the signs of x - t for each public t, given the opened c = x + r; 2 rounds.

        c has one axis, `dealt` is what followed from r by `RandomPlanes`, and `later` is as
        `comparison.signs` takes it.
        """
        (count,) = c.shape
        column = self._column([wrap(t) for t in thresholds], c)
        each = [lane.reshape(1, quarter(count)) for lane in lanes(c, self.concatenate)]
        return signs(self, [lane - column for lane in each], dealt, later)

    def suffix_or(self, bits: Bits) -> Bits:
        """Returns words whose bit i is the OR of bits i..63 of each word; 3 rounds."""
        return circuits.suffix_or(self, bits)

    def bits_to_arithmetic(self, bits: Bits, positions: Sequence[int]) -> Share:
        """Returns the bits at `positions` as integers; one round, one word opened for all.

        Of an opened bit p and the dealt bit d, the XOR is d - 2 p d + p. What is computed here is
        many times the word: each step takes the memory of the one before, where a host has that.
        """
        ((masks, dealt),) = self.deal([(BitWords(tuple(positions)), bits)])
        (mask,) = masks
        (opened,) = self.open_xor([bits ^ mask])
        public = opened >> self._column(positions, bits)
        public &= 1
        turned = dealt * public
        turned *= -2
        turned += dealt
        return self.add_public(turned, public)

    def _column(self, integers: Sequence[int], x: Share | Bits | Word) -> Any:
        """Returns public integers along a new leading axis before the shape of x."""
        column = np.array(integers, dtype=np.int64)
        return self.constant(column.reshape(-1, *(1 for _ in x.shape)))
