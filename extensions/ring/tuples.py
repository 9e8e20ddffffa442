"""Correlated randomness, in the clear: uniform words, and others that follow from them.

A dealer draws the masks of a correlation, computes the words that depend on them, and gives each
party its shares of both. How it does so is the host's affair; what it deals stands here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np

from extensions.ring.fixed_point import RING_BITS, Integers
from extensions.ring.interface import Bits, Share
from extensions.ring.planes import LANES, WIDTHS, planes, without_signs
from extensions.ring.words import Exponent, Monomial, Word, products_of, shift_right, shift_word

MOST_MAKERS = 4
"""Parties that can make tuples among themselves: pairs grow with the square of their number."""

Sharing = Literal["sum", "xor"]
"""Whether the shares of a word add up to it, modulo 2^64, or are its XOR."""


class Dealer(Protocol):
    """What whoever deals computes with, beside words: these also multiply, subtract and sum."""

    def stack(self, words: Sequence[Word]) -> Word:
        """Returns words of one shape along a new leading axis."""

    def constant(self, integers: Integers) -> Any:
        """Returns public integers as words are shifted by them."""


@dataclass(frozen=True)
class RandomWords:
    """A uniform word r, shared additively; bitwise r again, and products of its shifted bits."""

    products: tuple[Monomial, ...]
    masks: ClassVar[int] = 1
    masks_by: ClassVar[Sharing] = "sum"
    dependents_by: ClassVar[Sharing] = "xor"

    @property
    def dependents(self) -> int:
        """Number of words that follow."""
        return 1 + len(self.products)

    def follow(self, masks: Word, dealer: Dealer) -> Word:
        """Returns r and the products."""
        own = list(masks)
        return dealer.stack([*own, *products_of(self.products, own)])


@dataclass(frozen=True)
class RandomPlanes:
    """Four uniform words, shared additively; bitwise their planes, and products of these.

    The planes are of single bits, and the products are of planes whose sign bits are cleared, as
    `extensions.ring.comparison` takes them.
    """

    products: tuple[Monomial, ...]
    masks: ClassVar[int] = LANES
    masks_by: ClassVar[Sharing] = "sum"
    dependents_by: ClassVar[Sharing] = "xor"

    @property
    def dependents(self) -> int:
        return LANES + len(self.products)

    def follow(self, masks: Word, dealer: Dealer) -> Word:
        own = planes(list(masks), WIDTHS[0])
        return dealer.stack([*own, *products_of(self.products, without_signs(own))])


@dataclass(frozen=True)
class TruncationPair:
    """A uniform word r, its low 63 bits shifted right by `shift`, and its top bit; additive."""

    shift: int | Exponent
    masks: ClassVar[int] = 1
    dependents: ClassVar[int] = 2
    masks_by: ClassVar[Sharing] = "sum"
    dependents_by: ClassVar[Sharing] = "sum"

    def follow(self, masks: Word, dealer: Dealer) -> Word:
        (r,) = masks
        return dealer.stack(self.parts(r))

    def parts(self, r: Word) -> list[Word]:
        """Returns the shifted low bits and the top bit of r."""
        top = RING_BITS - 1
        return [shift_right(r & ((1 << top) - 1), self.shift), shift_word(r, -top)]


@dataclass(frozen=True)
class BitWords:
    """A uniform word, shared bitwise; additively the bits that it has at `positions`."""

    positions: tuple[int, ...]
    masks: ClassVar[int] = 1
    masks_by: ClassVar[Sharing] = "xor"
    dependents_by: ClassVar[Sharing] = "sum"

    def __post_init__(self) -> None:
        if not all(0 <= position < RING_BITS for position in self.positions):
            raise ValueError(f"bits {self.positions} of a word of {RING_BITS}")

    @property
    def dependents(self) -> int:
        return len(self.positions)

    def follow(self, masks: Word, dealer: Dealer) -> Word:
        column = np.array(self.positions, np.int64).reshape(-1, *(1 for _ in masks.shape[1:]))
        return (masks >> dealer.constant(column)) & 1


@dataclass(frozen=True)
class WordMasks:
    """A uniform mask for each of some wires, and products of their shifted bits; all bitwise."""

    masks: int
    products: tuple[Monomial, ...]
    masks_by: ClassVar[Sharing] = "xor"
    dependents_by: ClassVar[Sharing] = "xor"

    @property
    def dependents(self) -> int:
        return len(self.products)

    def follow(self, masks: Word, dealer: Dealer) -> Word:
        products = products_of(self.products, list(masks))
        return dealer.stack(products) if products else masks[:0]


Correlation = RandomWords | RandomPlanes | TruncationPair | BitWords | WordMasks


class Dealt(NamedTuple):
    """Shares of the masks of a correlation and of the words that follow, on leading axes."""

    masks: Share | Bits
    dependents: Share | Bits


@runtime_checkable
class TupleSource(Protocol):
    """Who deals; all parties ask for the same, in one order."""

    def deal(self, wanted: Sequence[tuple[Correlation, Share | Bits]]) -> list[Dealt]:
        """Returns fresh correlations, each to hide one value.

        Args:
            wanted: what to deal, with shares of the value that it is to hide: its words have the
                shape of that value, and its masks are shared among those who share the value.

        Guarantees:
            The masks are uniform to everybody but the dealer, whatever was dealt before.
        """
