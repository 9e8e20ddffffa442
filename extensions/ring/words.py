"""64-bit words of any host: logical shifts, and sums of products of masked, shifted words.

A word is whatever a host computes with: it supports `&`, `^`, `|`, `~`, and `<<` and (arithmetic)
`>>` by a Python int.
"""

import functools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from extensions.ring.fixed_point import wrap

Word = Any


class Exponent(Protocol):
    """A public exponent that a host's program reads whenever it runs."""

    def __add__(self, other: int) -> "Exponent":
        """Returns the exponent that is larger by a constant."""

    def __rsub__(self, other: int) -> "Exponent":
        """Returns a constant less the exponent."""

    def power(self) -> Word:
        """Returns 2^exponent, for exponents in 0..63, which shares can be multiplied by."""

    def shift_right(self, word: Word) -> Word:
        """Returns the word shifted logically to the right by so many places, in 0..63."""


def power(exponent: int | Exponent) -> Any:
    """Returns 2^exponent modulo 2^64."""
    return wrap(1 << exponent) if isinstance(exponent, int) else exponent.power()


def shift_right(word: Word, places: int | Exponent) -> Word:
    """Returns the word shifted logically to the right."""
    return shift_word(word, -places) if isinstance(places, int) else places.shift_right(word)


@dataclass(frozen=True, order=True)
class Factor:
    """One operand of a product: wire `wire`, shifted left by `shift` (right if negative).

    With opened word E and mask A of that wire the operand is E ^ A, or, if `gated`, E & A.
    """

    wire: int
    shift: int
    gated: bool = False


Term = tuple[Factor, ...]
Mask = tuple[int, int]
Monomial = tuple[Mask, ...]


def shift_word(word: Word, shift: int, *, ones: bool = False) -> Word:
    """Returns the word shifted left, or logically right for a negative shift.

    With `ones`, a right shift brings in ones instead of zeros.
    """
    if not shift:
        return word
    if shift > 0:
        return word << shift
    kept = (1 << (64 + shift)) - 1
    moved = (word >> -shift) & kept
    return moved | ~kept if ones else moved


def products_of(products: Sequence[Monomial], words: Sequence[Word]) -> list[Word]:
    """Returns, for each monomial, the AND of the shifted words that it names."""
    known: dict[Monomial, Word] = {}

    def product(monomial: Monomial) -> Word:
        if monomial not in known:
            *rest, (wire, shift) = monomial
            word = shift_word(words[wire], shift)
            if rest:
                word = product(tuple(rest)) & product(((wire, shift),))
            known[monomial] = word
        return known[monomial]

    return [product(monomial) for monomial in products]


def monomials(terms: Iterable[Term]) -> tuple[Monomial, ...]:
    """Returns the products of masks, of two masks or more, that the terms expand into."""
    found: set[Monomial] = set()
    for term in terms:
        subsets: set[Monomial] = {()}
        for factor in term:
            mask = (factor.wire, factor.shift)
            with_mask = {tuple(sorted({*subset, mask})) for subset in subsets}
            subsets = with_mask if factor.gated else subsets | with_mask
        found |= subsets
    return tuple(sorted((m for m in found if len(m) > 1), key=lambda m: (len(m), m)))


def sum_of_products(
    terms: Sequence[Term],
    opened: Sequence[Word],
    masks: Mapping[Monomial, Word],
    *,
    xor_public: Callable[[Word, Word], Word],
    ones: bool = False,
) -> Word:
    """Returns this party's XOR share of the XOR of all terms; local.

    Args:
        terms: products of factors.
        opened: for each wire the public word E = value ^ mask.
        masks: XOR shares of every single shifted mask and of every monomial of the terms.
        xor_public: returns shares of the XOR of a shared and a public word.
        ones: whether right shifts bring in ones.
    """
    shifted: dict[Mask, Word] = {}
    total: Word | None = None
    public: Word | None = None
    for term in terms:
        parts: dict[Monomial, Word | None] = {(): None}
        for factor in term:
            mask = (factor.wire, factor.shift)
            if mask not in shifted:
                shifted[mask] = shift_word(opened[factor.wire], factor.shift, ones=ones)
            word = shifted[mask]
            grown: dict[Monomial, Word | None] = {}
            for subset, coefficient in parts.items():
                gated = word if coefficient is None else coefficient & word
                joined = tuple(sorted({*subset, mask}))
                if factor.gated:
                    grown[joined] = gated
                else:
                    grown[subset] = gated
                    grown[joined] = coefficient
            parts = grown
        for subset, coefficient in parts.items():
            if subset == ():
                public = coefficient if public is None else public ^ coefficient
                continue
            factors = [w for w in (coefficient, masks[subset]) if w is not None]
            piece = functools.reduce(operator.and_, factors)
            total = piece if total is None else total ^ piece
    assert total is not None
    return total if public is None else xor_public(total, public)
