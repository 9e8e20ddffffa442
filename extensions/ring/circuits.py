"""Boolean circuits of few rounds: every level joins four neighbours, by dealt products of masks."""

import functools
from collections.abc import Mapping, Sequence
from typing import Protocol

from extensions.ring.tuples import Correlation, Dealt, WordMasks
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

    def xor_public(self, word: Word, value: Word | int) -> Word:
        """Returns shares of word ^ value for a public value; local."""

    def concatenate(self, words: Sequence[Word]) -> Word:
        """Returns the words one after the other along their first axis; local."""

    def open_xor(self, words: Sequence[Word]) -> list[Word]:
        """Returns the words in public; one round for all of them."""

    def deal(self, wanted: Sequence[tuple[Correlation, Word]]) -> list[Dealt]:
        """Returns fresh correlations, each to hide a word of the shape of the one given with it."""


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
def first_monomials() -> tuple[Monomial, ...]:
    """Returns the products of shifted bits of r that the first level of a subtraction needs."""
    return monomials([*FIRST_GENERATE, FIRST_PROPAGATE])


def masked(
    host: WordHost, wires: Sequence[Word], terms: Sequence[Term]
) -> tuple[list[Word], dict[Monomial, Word]]:
    """Opens the wires under fresh masks; returns public words and shares of mask products.

    Args:
        host: the host.
        wires: words of one shape.
        terms: what is to be computed of them, by `extensions.ring.words.sum_of_products`.

    Cost:
        One round.
    """
    correlation = WordMasks(len(wires), monomials(terms))
    ((dealt, products),) = host.deal([(correlation, wires[0])])
    masks = list(dealt)
    opened = host.open_xor([wire ^ mask for wire, mask in zip(wires, masks, strict=True)])
    known = dict(zip(correlation.products, products, strict=True))
    return opened, with_singles(known, masks, terms)


def with_singles(
    products: Mapping[Monomial, Word], masks: Sequence[Word], terms: Sequence[Term]
) -> dict[Monomial, Word]:
    """Returns the products of masks and every single shifted mask that the terms name; local."""
    named = {(factor.wire, factor.shift) for term in terms for factor in term}
    singles: dict[Monomial, Word] = {
        ((wire, shift),): shift_word(masks[wire], shift) for wire, shift in sorted(named)
    }
    return {**singles, **products}


def subtract_words(
    host: WordHost, minuends: Word, bits: Word, products: Mapping[Monomial, Word]
) -> Word:
    """Returns XOR shares of the bits of c - r for a public word c and a shared random word r.

    Args:
        host: the host.
        minuends: public c, of the shape of r.
        bits: XOR shares of r.
        products: shares of the products `first_monomials` of its bits.

    The first of the three levels is local, because the products of neighbouring bits of r come
    with r. **Cost.** 2 rounds.
    """
    add_up = functools.partial(sum_of_products, xor_public=host.xor_public)
    public = ~minuends
    own = with_singles(products, [bits], [*FIRST_GENERATE, FIRST_PROPAGATE])
    generate = (public & bits) ^ add_up(FIRST_GENERATE, [public], own)
    propagate = add_up([FIRST_PROPAGATE], [public], own)
    for distance in BORROW_DISTANCES:
        last = distance == BORROW_DISTANCES[-1]
        terms = _generate_terms(distance, (G, False))
        spread = [] if last else [_propagate_term(distance)]
        opened, masks = masked(host, [propagate, generate], [*terms, *spread])
        generate = generate ^ add_up(terms, opened, masks)
        if not last:
            propagate = add_up(spread, opened, masks)
    difference = bits ^ (generate << 1)
    return host.xor_public(difference, minuends)


def suffix_or(host: WordHost, word: Word) -> Word:
    """Returns XOR shares of the words whose bit i is the OR of bits i..63; 3 rounds."""
    negated = host.xor_public(word, -1)
    for distance in (1, 4, 16):
        term = _propagate_term(distance, -1)
        opened, masks = masked(host, [negated], [term])
        negated = sum_of_products([term], opened, masks, xor_public=host.xor_public, ones=True)
    return host.xor_public(negated, -1)
