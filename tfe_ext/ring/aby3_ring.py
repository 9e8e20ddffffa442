"""ABY3 as a ring: products of replicated shares, all else between servers 0 and 1.

Server 2 deals to the other two (`tfe_ext.ring.dealing`), who open values under what it dealt;
products are local, because every two servers hold all shares (`tfe_ext.ring.shares`).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from extensions.errors import ArgumentError
from extensions.ring import circuits
from extensions.ring.fixed_point import RING_BITS, Integers, check_frac_bits, wrap
from extensions.ring.interface import NoiseSource
from extensions.ring.tuples import Correlation, Dealt, WordMasks
from tfe_ext.ring import noise
from tfe_ext.ring.conversions import replicate
from tfe_ext.ring.dealing import Dealer
from tfe_ext.ring.opening import open_sum, open_xor
from tfe_ext.ring.servers import Servers
from tfe_ext.ring.shares import Additive2, Replicated, Share, in_one_form
from tfe_ext.ring.xor_words import Words

OFFSET_BITS = 62


class ABY3Ring:
    """`extensions.ring.interface.Ring` over three servers, and a `WordHost`.

    A share is a `tfe_ext.ring.shares.Share`; bits are `tfe_ext.ring.xor_words.Words`. In a traced
    function everything below adds operations to its graph; all shapes must be static.

    Guarantees:
        Against one server that follows the protocol: all that it receives is uniform and
        independent of what it holds, since every word is masked for this one message by words that
        it cannot compute. `tfe_ext.ring.dealing`, `tfe_ext.ring.opening` and
        `tfe_ext.ring.conversions` have all the messages there are, and say why.

    Args:
        servers: their devices, and what they draw from.
        frac_bits: fractional bits of a share.
    """

    parties = 3

    def __init__(self, servers: Servers, frac_bits: int) -> None:
        self.frac_bits = check_frac_bits(frac_bits)
        self.servers = servers
        self._on = servers.devices
        self._dealer = Dealer(servers)

    def add_public(self, x: Share, value: Integers | int) -> Share:
        return x.add_public(np.int64(wrap(value)) if isinstance(value, int) else value)

    def linear(self, x: Share, rows: Sequence[Sequence[int]]) -> list[Share]:
        matrix = np.array([[wrap(entry) for entry in row] for row in rows], dtype=np.int64)

        def combine(part: tf.Tensor) -> tf.Tensor:
            flat = tf.reshape(part, [matrix.shape[1], -1])
            return tf.reshape(tf.matmul(matrix, flat), [len(rows), *part.shape[1:]])

        combined = x.each(combine)
        return [combined[i] for i in range(len(rows))]

    def stack(self, shares: Sequence[Share]) -> Share:
        first, *others = in_one_form(shares)
        return first.stack(others)

    def mul(self, pairs: Sequence[tuple[Share, Share]]) -> list[Share]:
        """Returns the products; one round if an operand is not replicated yet, or else none.

        Cost:
            2 words for each element of an operand that is additively shared by two servers, 3 where
            all three share it; nothing for replicated ones, nor for the products.
        """
        return self._multiply(pairs, tf.multiply)

    def matmul(self, pairs: Sequence[tuple[Share, Share]]) -> list[Share]:
        """Returns the matrix products; see `mul`."""
        return self._multiply(pairs, tf.matmul)

    def _multiply(self, pairs: Sequence[tuple[Share, Share]], operation: Any) -> list[Share]:
        operands = replicate(self.servers, [operand for pair in pairs for operand in pair])
        both = zip(operands[::2], operands[1::2], strict=True)
        return [x.product(y, operation) for x, y in both]

    def truncate(self, items: Sequence[tuple[Share, int]]) -> list[Share]:
        """Returns z / 2^m by the dealt mask r: z + 2^62 + r is opened, its wrap corrected locally.

        Guarantees:
            For |z| < 2^62 the result is floor(z / 2^m) or one more, with the expected value z /
            2^m; there is no failure probability. `open_sum` says what each server sees.

        Cost:
            One round. An element: 4 words where servers 0 and 1 share z, 2 of them dealt; 6 words
            where z is an untruncated product.

        Source:
            Dalskov, Escudero and Keller 2020.
        """
        for _, shift in items:
            if not 0 <= shift < RING_BITS - 1:
                raise ArgumentError("shift", shift, f"in 0..{RING_BITS - 2}")
        values = [in_additive_form(z) for z, _ in items]
        pairs = self._dealer.truncation_pairs(
            [z.shape for z in values],
            [shift for _, shift in items],
            [not isinstance(z, Additive2) for z in values],
        )
        offset = np.int64(1 << OFFSET_BITS)
        masked = [z.add_public(offset) + pair.mask for z, pair in zip(values, pairs, strict=True)]
        opened = open_sum(masked)
        return [
            _shift_opened(c, pair.shifted, pair.top, m)
            for c, pair, (_, m) in zip(opened, pairs, items, strict=True)
        ]

    def bit_decompose(self, x: Share) -> Words:
        return self._differences(x, [0])[0]

    def less_than(self, x: Share, thresholds: Sequence[int]) -> Words:
        words = self._differences(x, thresholds)
        return (words >> (RING_BITS - 1)) & 1

    def _differences(self, x: Share, constants: Sequence[int]) -> Words:
        """Returns XOR shares of the bits of x - t for each public t, on a new leading axis.

        x + r is opened once for all t (r uniform and dealt with its bits): x - t = c - t - r.

        Cost:
            3 rounds.
        """
        value = in_additive_form(x)
        three = not isinstance(value, Additive2)
        r = self._dealer.random_words(x.shape, circuits.first_monomials(), for_three=three)
        (c,) = open_sum([value + r.value])
        shape = [-1] + [1] * len(x.shape)
        table = np.array([wrap(t) for t in constants], dtype=np.int64).reshape(shape)
        minuends = c.each(lambda part: part[None] - table)
        words: Words = circuits.subtract_words(self, minuends, r.bits, r.products)
        return words

    def suffix_or(self, bits: Words) -> Words:
        words: Words = circuits.suffix_or(self, bits)
        return words

    def bits_to_arithmetic(self, bits: Words, positions: Sequence[int]) -> Share:
        """Returns the bits at `positions` as integers; one round, one word opened for all."""
        word, dealt = self._dealer.bit_words(bits.shape, positions)
        (opened,) = open_xor([bits ^ word])
        places = np.reshape(np.array(positions, dtype=np.int64), [-1] + [1] * len(bits.shape))
        public = opened.each(lambda part: tf.bitwise.right_shift(part[None], places)) & 1
        parts = []
        for i in range(2):
            with tf.device(self._on[i]):
                flipped = (1 - 2 * public.parts[i]) * dealt.parts[i]
                parts.append(flipped + public.parts[i] if i == 0 else flipped)
        return Additive2(self._on, parts)

    def add_noise(
        self, x: Sequence[Share], scale: Sequence[float], source: NoiseSource
    ) -> list[Share]:
        values = [value.additive3() for value in x]
        draws = noise.draw(self.servers, source, scale, [value.shape for value in values])
        return [value + drawn for value, drawn in zip(values, draws, strict=True)]

    def xor_public(self, word: Words, value: Words | int) -> Words:
        """Returns shares of word ^ value for a public value; local."""
        first = value.parts[0] if isinstance(value, Words) else np.int64(wrap(value))
        with tf.device(self._on[0]):
            flipped = tf.bitwise.bitwise_xor(word.parts[0], first)
        return Words(self._on, [flipped, word.parts[1]])

    def open_xor(self, words: Sequence[Words]) -> list[Words]:
        """Returns the words, known to servers 0 and 1; one round, 2 words for each."""
        return open_xor(words)

    def deal(self, wanted: Sequence[tuple[Correlation, Words]]) -> list[Dealt]:
        """Returns fresh masks for wires, and shares of products of them."""
        return [
            Dealt(masks, list(products.values()))
            for correlation, word in wanted
            if isinstance(correlation, WordMasks)
            for masks, products in [
                self._dealer.word_masks(word.shape, correlation.masks, correlation.products)
            ]
        ]

    def replicate(self, shares: Sequence[Share]) -> list[Replicated]:
        """Returns the shares as the host holds them; one round for all."""
        return replicate(self.servers, shares)


def in_additive_form(x: Share) -> Share:
    """Returns x as servers 0 and 1 share it where that is local, or else as all three do."""
    return x.additive2() or x.additive3()


def _shift_opened(c: Words, shifted: Additive2, top: Additive2, m: int) -> Additive2:
    """Returns shares of floor(z / 2^m) or one more, from public c = z + 2^62 + r.

    As unsigned integers r and c differ by z + 2^62, less 2^64 where that wrapped: where the top
    bit of c is 0 and that of r is 1. So z + 2^62 = (c - r's low 63 bits) - 2^63 [top of r], up to
    the sign of the last term, which the top bit of c tells.
    """
    weight, offset = np.int64(wrap(1 << (RING_BITS - 1 - m))), np.int64(1 << (OFFSET_BITS - m))
    parts = []
    for i in range(2):
        with tf.device(c.servers[i]):
            mask_top = top.parts[i]
            carry = tf.where(c.parts[i] < 0, -mask_top, mask_top)
            part = carry * weight - shifted.parts[i]
            if i == 0:
                moved = tf.bitwise.right_shift(tf.bitcast(c.parts[i], tf.uint64), np.uint64(m))
                part += tf.bitcast(moved, tf.int64) - offset
            parts.append(part)
    return Additive2(c.servers, parts)
