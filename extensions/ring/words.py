"""64-bit words of any host: logical shifts, and sums of products of masked, shifted words.

A word is whatever a host computes with: it supports `&`, `^`, `|`, `~`, and `<<` and (arithmetic)
`>>` by a Python int; along its first axis a list of places picks words.
"""

import functools
import itertools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

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

    @property
    def mask(self) -> "Mask":
        """The mask of the operand: that of the wire, shifted likewise."""
        return self.wire, self.shift


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
    found = {monomial for term in terms for monomial in _expanded(term)}
    return tuple(sorted((m for m in found if len(m) > 1), key=lambda m: (len(m), m)))


def _expanded(term: Term) -> set[Monomial]:
    subsets: set[Monomial] = {()}
    for factor in term:
        with_mask = {_joined(subset, factor) for subset in subsets}
        subsets = with_mask if factor.gated else subsets | with_mask
    return subsets


def _joined(monomial: Monomial, factor: Factor) -> Monomial:
    return tuple(sorted({*monomial, factor.mask}))


class Stack(NamedTuple):
    """Words of one shape along a leading axis, with the place of each."""

    words: Word
    places: dict[Any, int]


def shifted(
    words: Word,
    terms: Iterable[Term],
    concatenate: Callable[[Sequence[Word]], Word],
    *,
    ones: bool = False,
) -> Stack:
    """Returns the words of all wires, shifted as the terms' factors are, by `Factor.mask`; local.

    Args:
        words: of every wire, stacked.
        terms: products.
        concatenate: joins words along their first axis.
        ones: whether right shifts bring in ones.
    """
    by_shift: dict[int, list[Mask]] = {}
    for mask in sorted({factor.mask for term in terms for factor in term}):
        by_shift.setdefault(mask[1], []).append(mask)
    rows = [
        shift_word(words[[wire for wire, _ in masks]], shift, ones=ones)
        for shift, masks in by_shift.items()
    ]
    places = {mask: i for i, mask in enumerate(itertools.chain(*by_shift.values()))}
    return Stack(concatenate(rows) if len(rows) > 1 else rows[0], places)


def sums_of_products(
    sums: Sequence[Sequence[Term]],
    opened: Stack,
    masks: Stack,
    concatenate: Callable[[Sequence[Word]], Word],
) -> list[Word]:
    """Returns this party's XOR shares of the XOR of all terms of each sum; local.

    With x = E ^ A a product x y is (E & y) ^ (A & y): of a term's factors the first is public, if
    shares are known of the others' product with every monomial of masks that is still needed. Terms
    that begin alike go together, and so do all their factors of one place.

    Args:
        sums: for each result its terms, products of factors.
        opened: the public words E = value ^ mask of all wires, by `Factor.mask`.
        masks: XOR shares of every product of masks of the terms, by monomial; of none, which is a
            word of ones, and of every single one as well.
        concatenate: joins words along their first axis.
    """
    terms = sorted({term for each in sums for term in each})
    start: Term = ()
    rows, places = masks.words, {(start, monomial): i for monomial, i in masks.places.items()}
    found: dict[Term, Word] = {}
    for length in range(1, max(map(len, terms)) + 1):
        needed: dict[Term, set[Monomial]] = {}
        for term in terms:
            if len(term) >= length:
                needed.setdefault(term[:length], set()).update(_expanded(term[length:]))
        wanted = [(head, m) for head in needed for m in sorted(needed[head])]
        parts, order = [], []
        for gated in (False, True):
            each = [(head, m) for head, m in wanted if head[-1].gated == gated]
            if each:
                parts.append(_step(each, opened, rows, places, gated=gated))
                order += each
        rows = concatenate(parts) if len(parts) > 1 else parts[0]
        places = {pair: i for i, pair in enumerate(order)}
        found |= {term: rows[places[term, ()]] for term in terms if len(term) == length}
    return [functools.reduce(operator.xor, (found[term] for term in each)) for each in sums]


def _step(
    wanted: Sequence[tuple[Term, Monomial]],
    opened: Stack,
    rows: Word,
    places: Mapping[tuple[Term, Monomial], int],
    *,
    gated: bool,
) -> Word:
    """Returns shares of each head's product with the monomial's masks, given shorter heads'."""
    factors = [head[-1] for head, _ in wanted]
    distinct = factors[:1] if len(set(factors)) == 1 else factors
    public = opened.words[[opened.places[factor.mask] for factor in distinct]]
    masked = rows[[places[head[:-1], _joined(m, head[-1])] for head, m in wanted]]
    if gated:
        return masked & public
    return (rows[[places[head[:-1], m] for head, m in wanted]] & public) ^ masked
