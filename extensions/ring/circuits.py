"""Boolean circuits of few rounds: every level joins four neighbours, by dealt products of masks."""

import functools
from collections.abc import Mapping, Sequence
from typing import Protocol

from extensions.ring.words import (
    Factor,
    Monomial,
    Term,
    Word,
    monomials,
    shift_word,
    sum_of_products,
)

P, G = 0, 1
BORROW_DISTANCES = (4, 16)


class WordHost(Protocol):
    """What a host offers to the circuits; words are XOR-shared unless called public."""

    def leading(self, word: Word) -> Word | None:
        """Returns a public word as a share: itself for one party, None (zero) for the others."""

    def invert(self, word: Word) -> Word:
        """Returns shares of the inverted word; local."""

    def open_xor(self, words: Sequence[Word]) -> list[Word]:
        """Returns the words in public; one round for all of them."""

    def word_masks(
        self, shape: Sequence[int], wires: int, products: Sequence[Monomial]
    ) -> tuple[list[Word], dict[Monomial, Word]]:
        """Returns a fresh uniform mask for each wire, and shares of the named products of them."""


def _generate_terms(distance: int, generate: tuple[int, bool]) -> list[Term]:
    wire, gated = generate
    return [
        (*(Factor(P, i * distance) for i in range(n)), Factor(wire, n * distance, gated))
        for n in range(1, 4)
    ]


def _propagate_term(distance: int, sign: int = 1) -> Term:
    return tuple(Factor(P, sign * i * distance) for i in range(4))


FIRST_GENERATE = _generate_terms(1, (P, True))
FIRST_PROPAGATE = _propagate_term(1)


@functools.cache
def first_monomials() -> list[Monomial]:
    """Returns the products of shifted bits of r that the first level of a subtraction needs."""
    return monomials([*FIRST_GENERATE, FIRST_PROPAGATE])


def _masked(
    host: WordHost, wires: list[Word], terms: list[Term]
) -> tuple[list[Word], dict[Monomial, Word]]:
    """Opens the wires under fresh masks; returns public words and shares of mask products."""
    masks, products = host.word_masks(wires[0].shape, len(wires), monomials(terms))
    opened = host.open_xor([wire ^ mask for wire, mask in zip(wires, masks, strict=True)])
    return opened, _with_singles(products, masks, terms)


def _with_singles(
    products: Mapping[Monomial, Word], masks: list[Word], terms: list[Term]
) -> dict[Monomial, Word]:
    named = {(factor.wire, factor.shift) for term in terms for factor in term}
    singles: dict[Monomial, Word] = {
        ((wire, shift),): shift_word(masks[wire], shift) for wire, shift in sorted(named)
    }
    return {**singles, **products}


def subtract_words(
    host: WordHost, minuends: Word, bits: Word, products: Mapping[Monomial, Word]
) -> Word:
    """Returns XOR shares of the bits of c - r for public words c and a shared random word r.

    Args:
        host: the host.
        minuends: public c, any number of leading axes before the shape of r.
        bits: XOR shares of r.
        products: shares of the products `first_monomials` of its bits.

    The first of the three levels is local, because the products of neighbouring bits of r come
    with r. **Cost.** 2 rounds.
    """
    leading = host.leading
    public = ~minuends
    own = _with_singles(products, [bits], [*FIRST_GENERATE, FIRST_PROPAGATE])
    generate = (public & bits) ^ sum_of_products(FIRST_GENERATE, [public], own, leading=leading)
    propagate = sum_of_products([FIRST_PROPAGATE], [public], own, leading=leading)
    for distance in BORROW_DISTANCES:
        last = distance == BORROW_DISTANCES[-1]
        terms = _generate_terms(distance, (G, False))
        spread = [] if last else [_propagate_term(distance)]
        opened, masks = _masked(host, [propagate, generate], [*terms, *spread])
        generate = generate ^ sum_of_products(terms, opened, masks, leading=leading)
        if not last:
            propagate = sum_of_products(spread, opened, masks, leading=leading)
    difference = bits ^ (generate << 1)
    first = leading(minuends)
    return difference if first is None else difference ^ first


def suffix_or(host: WordHost, word: Word) -> Word:
    """Returns XOR shares of the words whose bit i is the OR of bits i..63; 3 rounds."""
    negated = host.invert(word)
    for distance in (1, 4, 16):
        term = _propagate_term(distance, -1)
        opened, masks = _masked(host, [negated], [term])
        negated = sum_of_products([term], opened, masks, leading=host.leading, ones=True)
    return host.invert(negated)
