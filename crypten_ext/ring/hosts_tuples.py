"""Our tuples from CrypTen's own providers: its trusted first party, or whoever has triples."""

import math
import warnings
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import torch

from crypten_ext.ring.exchange import is_leader, open_xor
from crypten_ext.ring.factors import LayerMasks
from crypten_ext.ring.joint import JointDealing, add_to, followed, layer
from extensions.errors import InsecureWarning
from extensions.ring.fixed_point import RING_BITS
from extensions.ring.joint import Joint, Part
from extensions.ring.planes import WIDTHS, planes, without_signs
from extensions.ring.tuples import (
    BitWords,
    Correlation,
    Dealt,
    RandomPlanes,
    RandomWords,
    Sharing,
    TruncationPair,
    WordMasks,
)
from extensions.ring.words import Monomial, Word, shift_word, unshifted

import crypten
from crypten import communicator
from crypten.common import rng
from crypten.mpc.primitives import ArithmeticSharedTensor, BinarySharedTensor
from crypten.mpc.provider.tfp_provider import TrustedFirstParty

CHOSEN = "INSECURE_TFP"
"""``crypten.cfg.mpc.provider`` for whoever wants party 0 to deal, and so to know every secret."""


class HostsTriples:
    """Of those who deal our tuples, one that has no triples of its own."""

    def deal_triple(self, op: str, x: Sequence[int], y: Sequence[int]) -> list[torch.Tensor]:
        """Returns this party's shares of uniform a and b of these shapes, and of op(a, b)."""
        provider = crypten.mpc.get_default_provider()
        dealt = provider.generate_additive_triple(x, y, op, device=torch.device("cpu"))
        return [each.share for each in dealt]


class ChosenFirstParty(TrustedFirstParty):
    """CrypTen's default provider, asked for by name."""


def warn_of_first_party(provider: Any) -> None:
    """Warns, once a process, if CrypTen's default lets party 0 see the others' secrets."""
    if type(provider) is TrustedFirstParty and communicator.get().get_world_size() > 1:
        _warn()


@cache
def _warn() -> None:
    warnings.warn(
        "Party 0 can see every secret of the other parties, because CrypTen's default provider "
        'lets it deal all triples. Set crypten.cfg.mpc.provider = "DEALER" or "PARTIES", '
        f'or "{CHOSEN}" if party 0 may see all.',
        InsecureWarning,
        stacklevel=5,
    )


class FirstParty(HostsTriples, JointDealing):
    """An `extensions.ring.tuples.TupleSource`: party 0 knows every tuple, and sends no message.

    The others expand their shares from the keys that they share with neighbours. Party 0, which
    knows all plaintexts, gives up its zero share for them.
    """

    owners_know = False

    def deal_layer(self, rows: Sequence[int], inputs: int, outputs: int) -> LayerMasks:
        """Returns fresh masks for the two products of a layer."""
        return LayerMasks(*self._deal(layer(sum(rows), inputs, outputs)))

    def _deal(self, joint: Joint) -> list[torch.Tensor]:
        parts = [*joint.masks, *joint.dependents]
        shares = _zeros(parts)
        if not is_leader():
            return shares
        sizes = [math.prod(part.shape) for part in joint.masks]
        words = rng.generate_random_ring_element((sum(sizes),)).split(sizes)
        drawn = [own.reshape(part.shape) for own, part in zip(words, joint.masks, strict=True)]
        values = [*drawn, *followed(joint, drawn)]
        for part, share, value in zip(parts, shares, values, strict=True):
            add_to(part.sharing, share, value)
        return shares


def _zeros(parts: Sequence[Part]) -> list[torch.Tensor]:
    """Returns shares of zeros, drawn at once for all parts of a kind."""
    drawn: dict[Sharing, Iterator[torch.Tensor]] = {}
    for sharing, primitive in _PRIMITIVES.items():
        sizes = [math.prod(part.shape) for part in parts if part.sharing == sharing]
        if sizes:
            drawn[sharing] = iter(primitive.PRZS((sum(sizes),)).share.split(sizes))
    return [next(drawn[part.sharing]).reshape(part.shape) for part in parts]


_PRIMITIVES: dict[Sharing, Any] = {"sum": ArithmeticSharedTensor, "xor": BinarySharedTensor}


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
