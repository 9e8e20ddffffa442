"""Our tuples from any CrypTen provider, built of its random bits and binary triples."""

from collections.abc import Sequence

import torch

from crypten_ext.ring.opening import is_leader, open_xor
from crypten_ext.ring.triples import HostsTriples
from extensions.ring.fixed_point import RING_BITS
from extensions.ring.planes import WIDTHS, planes, without_signs
from extensions.ring.tuples import (
    BitWords,
    Correlation,
    Dealt,
    RandomPlanes,
    RandomWords,
    TruncationPair,
    WordMasks,
)
from extensions.ring.words import Monomial, Word, shift_word, unshifted

import crypten
from crypten.common import rng


class GenericTuples(HostsTriples):
    """An `extensions.ring.tuples.TupleSource` as trusted as the configured provider.

    Cost:
        One round for each size of product beyond one, and the provider's own.
    """

    def deal(self, wanted: Sequence[tuple[Correlation, torch.Tensor]]) -> list[Dealt]:
        """Returns fresh correlations, each to hide one value."""
        return [_deal(correlation, value.shape) for correlation, value in wanted]


def _deal(correlation: Correlation, shape: torch.Size) -> Dealt:
    """Returns what `correlation.follow` says of words of which nobody knows the bits."""
    if isinstance(correlation, WordMasks):
        masks = rng.generate_random_ring_element((correlation.masks, *shape))
        return Dealt(masks, _stack(_multiply_masks(list(masks), correlation.products), shape))
    bits, word = _random_bits((correlation.masks, *shape))
    match correlation:
        case RandomWords(products):
            multiplied = _multiply_masks(list(word), products)
            return Dealt(_sum_of_bits(bits), _stack([*word, *multiplied], shape))
        case RandomPlanes(products):
            own = planes(list(word), WIDTHS[0])
            multiplied = _multiply_masks(without_signs(own), products)
            return Dealt(_sum_of_bits(bits), _stack([*own, *multiplied], shape))
        case TruncationPair(shift):
            top = bits[RING_BITS - 1]
            shifted = _sum_of_bits(bits[shift : RING_BITS - 1])
            return Dealt(_sum_of_bits(bits), torch.cat([shifted, top]))
        case BitWords(positions):
            return Dealt(word, bits[list(positions), 0])


def _random_bits(shape: tuple[int, ...]) -> tuple[torch.Tensor, Word]:
    """Returns additive shares of 64 random bits on a leading axis, and the words that they form."""
    provider = crypten.mpc.get_default_provider()
    size = torch.Size((RING_BITS, *shape))
    arithmetic, binary = provider.B2A_rng(size, device=torch.device("cpu"))
    bits = binary.share & 1
    word = bits[0].clone()
    for i in range(1, RING_BITS):
        word ^= bits[i] << i
    return arithmetic.share, word


def _sum_of_bits(bits: torch.Tensor) -> torch.Tensor:
    """Returns additive shares of the integers with these bits, from the lowest."""
    return torch.stack([bit << i for i, bit in enumerate(bits)]).sum(0)


def _stack(words: Sequence[Word], shape: torch.Size) -> torch.Tensor:
    return torch.stack(list(words)) if words else torch.empty((0, *shape), dtype=torch.int64)


def _multiply_masks(masks: Sequence[Word], products: Sequence[Monomial]) -> list[Word]:
    """Returns XOR shares of the products by binary triples: one round for each size of product.

    A product of all masks but the last is computed too if it was not asked for, and of products of
    which one is a shift of the other, one.
    """
    provider = crypten.mpc.get_default_provider()
    known: dict[Monomial, Word] = {((i, 0),): mask for i, mask in enumerate(masks)}

    def found(monomial: Monomial) -> Word:
        own, shift = unshifted(monomial)
        return shift_word(known[own], shift)

    needed: set[Monomial] = set()
    for monomial in products:
        while len(monomial) > 1:
            monomial, _ = unshifted(monomial)
            needed.add(monomial)
            monomial = monomial[:-1]
    for size in sorted({len(m) for m in needed}):
        wanted = sorted(m for m in needed if len(m) == size)
        x = torch.stack([found(m[:-1]) for m in wanted])
        y = torch.stack([found(m[-1:]) for m in wanted])
        a, b, c = (
            t.share for t in provider.generate_binary_triple(x.size(), y.size(), device=x.device)
        )
        d, e = open_xor([x ^ a, y ^ b])
        z = c ^ (d & b) ^ (a & e)
        if is_leader():
            z = z ^ (d & e)
        known.update(zip(wanted, z, strict=True))
    return [found(m) for m in products]
