"""Our tuples from any CrypTen provider, built of its random bits and binary triples."""

from collections.abc import Sequence

import torch

from crypten_ext.ring.opening import is_leader, open_xor
from crypten_ext.ring.tuple_kinds import RandomWords, Shape, TruncationPair
from extensions.ring.words import Monomial, Word, shift_word

import crypten
from crypten.common import rng


class GenericTuples:
    """A `crypten_ext.ring.tuple_kinds.TupleSource` as trusted as the configured provider.

    Cost:
        One round for each size of product beyond one, and the provider's own.
    """

    def random_words(self, shape: Shape, products: Sequence[Monomial]) -> RandomWords:
        """Returns fresh uniform words with the named products of their shifted bits."""
        arithmetic, bits = _random_bits(shape)
        value = sum((arithmetic[i] << i for i in range(1, 64)), start=arithmetic[0])
        return RandomWords(value, bits, _multiply_masks([bits], products))

    def truncation_pairs(
        self, shapes: Sequence[Shape], shifts: Sequence[int]
    ) -> list[TruncationPair]:
        """Returns fresh truncation pairs, one for each shape and shift."""
        pairs = []
        for shape, shift in zip(shapes, shifts, strict=True):
            bits, _ = _random_bits(shape)
            value = sum((bits[i] << i for i in range(1, 64)), start=bits[0])
            zero = torch.zeros_like(value)
            shifted = sum((bits[i] << (i - shift) for i in range(shift, 63)), start=zero)
            pairs.append(TruncationPair(value, shifted, bits[63]))
        return pairs

    def bit_words(self, shape: Shape, positions: Sequence[int]) -> tuple[Word, torch.Tensor]:
        """Returns uniform words shared bitwise, and additive shares of their bits there."""
        arithmetic, bits = _random_bits(shape)
        return bits, arithmetic[list(positions)]

    def word_masks(
        self, shape: Shape, wires: int, products: Sequence[Monomial]
    ) -> tuple[list[Word], dict[Monomial, Word]]:
        """Returns a fresh uniform mask for each wire, and XOR shares of the named products."""
        masks = list(rng.generate_random_ring_element((wires, *shape)))
        return masks, _multiply_masks(masks, products)


def _random_bits(shape: Shape) -> tuple[torch.Tensor, Word]:
    """Returns additive shares of 64 random bits on a leading axis, and the words that they form."""
    provider = crypten.mpc.get_default_provider()
    arithmetic, binary = provider.B2A_rng(torch.Size((64, *shape)), device=torch.device("cpu"))
    bits = binary.share & 1
    word = bits[0].clone()
    for i in range(1, 64):
        word ^= bits[i] << i
    return arithmetic.share, word


def _multiply_masks(masks: Sequence[Word], products: Sequence[Monomial]) -> dict[Monomial, Word]:
    """Returns XOR shares of the products by binary triples: one round for each size of product.

    A product of all masks but the last is computed too if it was not asked for.
    """
    provider = crypten.mpc.get_default_provider()
    known: dict[Monomial, Word] = {
        (mask,): shift_word(masks[mask[0]], mask[1]) for m in products for mask in m
    }
    needed = {m[:size] for m in products for size in range(2, len(m) + 1)}
    for size in sorted({len(m) for m in needed}):
        wanted = sorted(m for m in needed if len(m) == size)
        x = torch.stack([known[m[:-1]] for m in wanted])
        y = torch.stack([known[m[-1:]] for m in wanted])
        a, b, c = (
            t.share for t in provider.generate_binary_triple(x.size(), y.size(), device=x.device)
        )
        d, e = open_xor([x ^ a, y ^ b])
        z = c ^ (d & b) ^ (a & e)
        if is_leader():
            z = z ^ (d & e)
        known.update(zip(wanted, z, strict=True))
    return {m: known[m] for m in products}
