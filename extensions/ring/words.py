"""64-bit words of any host: logical shifts, and sums of products of masked, shifted words.

A word is whatever a host computes with: it supports `&`, `^`, `|`, `~`, and `<<` and (arithmetic)
`>>` by a Python int; a slice takes words along its first axis.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

from extensions.ring.fixed_point import wrap

Word = Any


class Exponent(Protocol):
    """A public exponent that a host's program reads whenever it runs."""

    def __add__(self, other: int) -> Exponent:
        """Returns the exponent that is larger by a constant."""

    def __rsub__(self, other: int) -> Exponent:
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
    def mask(self) -> Mask:
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
    for monomial in products:
        for count, mask in enumerate(monomial, start=1):
            head, single = monomial[:count], (mask,)
            if single not in known:
                known[single] = shift_word(words[mask[0]], mask[1])
            if head not in known:
                known[head] = known[head[:-1]] & known[single]
    return [known[monomial] for monomial in products]


def monomials(terms: Iterable[Term]) -> tuple[Monomial, ...]:
    """Returns the products of masks, of two masks or more, that the terms expand into."""
    return _ordered({monomial for term in terms for monomial in _expanded(term)})


def _ordered(found: set[Monomial]) -> tuple[Monomial, ...]:
    return tuple(sorted((m for m in found if len(m) > 1), key=lambda m: (len(m), m)))


def unshifted(monomial: Monomial) -> tuple[Monomial, int]:
    """Returns the product of which one is a shift, and that shift.

    Words that are all shifted to one side have their product shifted, if each is shifted less.
    """
    shifts = [shift for _, shift in monomial]
    common = max(0, min(shifts)) + min(0, max(shifts))
    return tuple((wire, shift - common) for wire, shift in monomial), common


def _expanded(term: Term) -> set[Monomial]:
    subsets: set[Monomial] = {()}
    for factor in term:
        with_mask = {_joined(subset, factor) for subset in subsets}
        subsets = with_mask if factor.gated else subsets | with_mask
    return subsets


def _joined(monomial: Monomial, factor: Factor) -> Monomial:
    return tuple(sorted({*monomial, factor.mask}))


Places = slice | tuple[int, ...]
"""Rows of stacked words."""


class Stacks(Protocol):
    """What a host does with stacked words, which differ along their first axis; local."""

    def concatenate(self, words: Sequence[Word]) -> Word:
        """Returns the words one after the other along their first axis."""

    def pick(self, words: Word, places: Places) -> Word:
        """Returns the words at some places."""

    def and_xor(
        self, words: Word, left: Places, public: Word, right: Places, added: Places | None
    ) -> Word:
        """Returns words[left] & public[right] ^ words[added], or without the last; new words.

        Public words broadcast with the others, and one with any number of them.
        """


_Shifted = list[tuple[int, Places]]
"""Which words are shifted, by the shift."""
_Name = TypeVar("_Name")


class _Step(NamedTuple):
    """Rows of products that have one factor more, from the rows of those before.

    Attributes:
        public: the last factors' opened words.
        masked: rows of the products before with the last factors' masks.
        plain: rows of the products before.
    """

    gated: bool
    public: Places
    masked: Places
    plain: Places


class Sums:
    """XORs of products of wires that are opened under masks, and how shares of them follow.

    With x = E ^ A a product x y is (E & y) ^ (A & y): of a product's factors the first is public,
    if shares are known of the others' product with every monomial of masks that is still needed.
    Products that begin alike go together, and so do all their factors of one place.

    What is to be done follows from the terms alone and is found once, so that such an object
    belongs where its terms stand, not where they are evaluated.

    Args:
        sums: for each result its terms, products of factors.

    Attributes:
        terms: all of them, each once.
        monomials: the products of two masks or more that they expand into, of which none is a shift
            of another one.
    """

    def __init__(self, *sums: Sequence[Term]) -> None:
        self.terms = sorted({term for each in sums for term in each})
        products = {monomial: unshifted(monomial) for monomial in monomials(self.terms)}
        self.monomials = _ordered({own for own, _ in products.values()})
        places = {monomial: i for i, monomial in enumerate(self.monomials)}
        masks = sorted({factor.mask for term in self.terms for factor in term})
        singles, self._of_wires = _by_shift({mask: mask for mask in masks})
        names, self._of_products = _by_shift(
            {monomial: (places[own], shift) for monomial, (own, shift) in products.items()}
        )
        self._public = {mask: i for i, mask in enumerate(singles)}
        names = [(), *((mask,) for mask in singles), *names]
        rows: _Rows = {((), name): i for i, name in enumerate(names)}
        self._lengths: list[list[_Step]] = []
        found: dict[Term, tuple[int, int]] = {}
        for length in range(1, max(map(len, self.terms)) + 1):
            steps, rows = self._steps(length, rows)
            self._lengths.append(steps)
            of_this = (term for term in self.terms if len(term) == length)
            found |= {term: (length - 1, rows[term, ()]) for term in of_this}
        self._results = [[found[term] for term in each] for each in sums]

    def _steps(self, length: int, rows: _Rows) -> tuple[list[_Step], _Rows]:
        """Returns how products of so many factors follow from shorter ones, and their own rows."""
        needed: dict[Term, set[Monomial]] = {}
        for term in self.terms:
            if len(term) >= length:
                needed.setdefault(term[:length], set()).update(_expanded(term[length:]))
        wanted = [(head, m) for head in needed for m in sorted(needed[head])]
        steps, order = [], []
        for gated in (False, True):
            each = [(head, m) for head, m in wanted if head[-1].gated == gated]
            if each:
                steps.append(self._step(gated, each, rows))
                order += each
        return steps, {pair: i for i, pair in enumerate(order)}

    def _step(self, gated: bool, wanted: Sequence[tuple[Term, Monomial]], rows: _Rows) -> _Step:
        factors = [head[-1] for head, _ in wanted]
        distinct = factors[:1] if len(set(factors)) == 1 else factors
        return _Step(
            gated,
            _places([self._public[factor.mask] for factor in distinct]),
            _places([rows[head[:-1], _joined(m, head[-1])] for head, m in wanted]),
            _places([] if gated else [rows[head[:-1], m] for head, m in wanted]),
        )

    def evaluated(
        self,
        host: Stacks,
        opened: Word,
        masks: Word,
        products: Word,
        ones: Word,
        *,
        bring_ones: bool = False,
    ) -> list[Word]:
        """Returns this party's XOR shares of each sum; local.

        Args:
            opened: the public words E = value ^ mask of all wires, stacked.
            masks: XOR shares of their masks A, stacked.
            products: XOR shares of the products `monomials` of masks, stacked.
            ones: XOR shares of a word of ones, on a leading axis of one.
            bring_ones: whether right shifts bring in ones.
        """
        public = host.concatenate(_shifted(host, opened, self._of_wires, ones=bring_ones))
        of_masks = _shifted(host, masks, self._of_wires)
        of_products = _shifted(host, products, self._of_products)
        rows = host.concatenate([ones, *of_masks, *of_products])
        lengths = []
        for steps in self._lengths:
            parts = [
                host.and_xor(rows, step.masked, public, step.public, None)
                if step.gated
                else host.and_xor(rows, step.plain, public, step.public, step.masked)
                for step in steps
            ]
            rows = host.concatenate(parts) if len(parts) > 1 else parts[0]
            lengths.append(rows)
        return [
            functools.reduce(operator.xor, (lengths[length][row] for length, row in each))
            for each in self._results
        ]


_Rows = dict[tuple[Term, Monomial], int]


def _places(rows: list[int]) -> Places:
    """Returns a slice where that says the same, which takes a fraction of the time."""
    start, stop = (rows[0], rows[0] + len(rows)) if rows else (0, 0)
    return slice(start, stop) if rows == list(range(start, stop)) else tuple(rows)


def _by_shift(words: Mapping[_Name, Mask]) -> tuple[list[_Name], _Shifted]:
    """Returns names of shifted words as `_shifted` stacks them, given their places and shifts."""
    found: dict[int, list[_Name]] = {}
    for name, (_, shift) in words.items():
        found.setdefault(shift, []).append(name)
    places = [(shift, _places([words[name][0] for name in own])) for shift, own in found.items()]
    return list(itertools.chain(*found.values())), places


def _shifted(host: Stacks, words: Word, shifts: _Shifted, *, ones: bool = False) -> list[Word]:
    return [shift_word(host.pick(words, places), shift, ones=ones) for shift, places in shifts]
