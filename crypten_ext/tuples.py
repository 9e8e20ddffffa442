"""Correlated randomness for our protocols, from whatever provider CrypTen is configured with.

CrypTen's default provider, the trusted first party, deals them without communication: party 0
draws and computes, the others expand their shares from the keys that they share with neighbours.
Any other provider is asked for random bits and binary triples only, from which the same tuples
are built with some rounds of preprocessing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from crypten_ext.opening import is_leader, open_xor
from crypten_ext.words import Monomial, Word, shift_word

import crypten
from crypten.common import rng
from crypten.mpc.primitives import ArithmeticSharedTensor, BinarySharedTensor

Shape = Sequence[int]


@dataclass(frozen=True)
class RandomWords:
    """A uniform word r shared additively and bitwise, with products of its shifted bits."""

    value: torch.Tensor
    bits: Word
    products: dict[Monomial, Word]


@dataclass(frozen=True)
class TruncationPair:
    """A uniform word r, its low 63 bits shifted right by m, and its top bit, additively shared."""

    mask: torch.Tensor
    shifted: torch.Tensor
    top: torch.Tensor


def random_words(shape: Shape, products: Sequence[Monomial]) -> RandomWords:
    """Returns fresh uniform words with the named products of their shifted bits."""
    if not _first_party_deals():
        arithmetic, bits = _random_bits(shape)
        value = sum((arithmetic[i] << i for i in range(1, 64)), start=arithmetic[0])
        return RandomWords(value, bits, _multiply_masks([bits], products))
    r = _draw(shape)
    value = _deal_sum(shape, r)
    plain = None if r is None else torch.stack([r, *(_product(m, [r]) for m in products)])
    dealt = _deal_xor((1 + len(products), *shape), plain)
    return RandomWords(value, dealt[0], dict(zip(products, dealt[1:], strict=True)))


def truncation_pairs(shapes: Sequence[Shape], shifts: Sequence[int]) -> list[TruncationPair]:
    """Returns fresh truncation pairs, one for each shape and shift."""
    return [_truncation_pair(shape, m) for shape, m in zip(shapes, shifts, strict=True)]


def _truncation_pair(shape: Shape, shift: int) -> TruncationPair:
    if not _first_party_deals():
        bits, _ = _random_bits(shape)
        value = sum((bits[i] << i for i in range(1, 64)), start=bits[0])
        zero = torch.zeros_like(value)
        shifted = sum((bits[i] << (i - shift) for i in range(shift, 63)), start=zero)
        return TruncationPair(value, shifted, bits[63])
    r = _draw(shape)
    plain = None if r is None else torch.stack([r, (r & (2**63 - 1)) >> shift, shift_word(r, -63)])
    return TruncationPair(*_deal_sum((3, *shape), plain))


def bit_words(shape: Shape, positions: Sequence[int]) -> tuple[Word, torch.Tensor]:
    """Returns uniform words shared bitwise, and additive shares of their bits at `positions`."""
    if not _first_party_deals():
        arithmetic, bits = _random_bits(shape)
        return bits, arithmetic[list(positions)]
    r = _draw(shape)
    word = _deal_xor(shape, r)
    plain = None if r is None else torch.stack([(r >> i) & 1 for i in positions])
    return word, _deal_sum((len(positions), *shape), plain)


def word_masks(
    shape: Shape, wires: int, products: Sequence[Monomial]
) -> tuple[list[Word], dict[Monomial, Word]]:
    """Returns a fresh uniform mask for each wire, and XOR shares of the named products of them."""
    if not _first_party_deals():
        masks = list(rng.generate_random_ring_element((wires, *shape)))
        return masks, _multiply_masks(masks, products)
    r = _draw((wires, *shape))
    plain = None if r is None else torch.stack([*r, *(_product(m, list(r)) for m in products)])
    dealt = _deal_xor((wires + len(products), *shape), plain)
    return list(dealt[:wires]), dict(zip(products, dealt[wires:], strict=True))


def _first_party_deals() -> bool:
    return bool(crypten.mpc.get_default_provider().NAME == "TFP")


def _draw(shape: Shape) -> torch.Tensor | None:
    if not is_leader():
        return None
    drawn: torch.Tensor = rng.generate_random_ring_element(tuple(shape))
    return drawn


def _deal_sum(shape: Shape, plain: torch.Tensor | None) -> torch.Tensor:
    share: torch.Tensor = ArithmeticSharedTensor.PRZS(tuple(shape)).share
    return share if plain is None else share + plain


def _deal_xor(shape: Shape, plain: torch.Tensor | None) -> Word:
    share: Word = BinarySharedTensor.PRZS(tuple(shape)).share
    return share if plain is None else share ^ plain


def _product(monomial: Monomial, words: Sequence[Word]) -> Word:
    result = None
    for wire, shift in monomial:
        word = shift_word(words[wire], shift)
        result = word if result is None else result & word
    assert result is not None
    return result


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
    """Returns XOR shares of the products by binary triples: one round for each size of product."""
    provider = crypten.mpc.get_default_provider()
    known: dict[Monomial, Word] = {
        (mask,): shift_word(masks[mask[0]], mask[1]) for m in products for mask in m
    }
    for size in sorted({len(m) for m in products}):
        wanted = [m for m in products if len(m) == size]
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
