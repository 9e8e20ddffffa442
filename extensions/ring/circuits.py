"""Boolean circuits of few rounds: every level joins four neighbours, by dealt products of masks."""

import functools
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from extensions.ring.tuples import Correlation, Dealt, WordMasks
from extensions.ring.words import (
    Factor,
    Monomial,
    Stack,
    Term,
    Word,
    monomials,
    shifted,
    sums_of_products,
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


class Masked(NamedTuple):
    """Wires that are open under masks; all words are stacked.

    Attributes:
        opened: the public words.
        masks: XOR shares of their masks.
        products: XOR shares of the products that the terms `extensions.ring.words.monomials` name.
    """

    opened: Word
    masks: Word
    products: Word


def masked(
    host: WordHost, wires: Word, terms: Sequence[Term], dealt: Dealt | None = None
) -> Masked:
    """Opens the wires under fresh masks.

    Args:
        host: the host.
        wires: words, stacked.
        terms: what is to be computed of them, by `evaluated`.
        dealt: `extensions.ring.tuples.WordMasks` for those wires and terms, if they were dealt for
            this opening already; by default they are dealt now.

    Cost:
        One round.
    """
    correlation = WordMasks(wires.shape[0], monomials(terms))
    masks, products = dealt or host.deal([(correlation, wires[0])])[0]
    (opened,) = host.open_xor([wires ^ masks])
    return Masked(opened, masks, products)


def evaluated(
    host: WordHost, sums: Sequence[Sequence[Term]], wires: Masked, *, ones: bool = False
) -> list[Word]:
    """Returns XOR shares of sums of products of the wires' values; local.

    Args:
        host: the host.
        sums: the terms of each; together all of those that `wires` was opened for.
        wires: open under masks.
        ones: whether right shifts bring in ones.
    """
    terms = [term for each in sums for term in each]
    opened = shifted(wires.opened, terms, host.concatenate, ones=ones)
    singles = shifted(wires.masks, terms, host.concatenate)
    first = wires.masks[:1]
    names: list[Monomial] = [(), *((mask,) for mask in singles.places), *monomials(terms)]
    known = host.concatenate([host.xor_public(first ^ first, -1), singles.words, wires.products])
    masks = Stack(known, {name: i for i, name in enumerate(names)})
    return sums_of_products(sums, opened, masks, host.concatenate)


def subtract_words(host: WordHost, minuends: Word, bits: Word, products: Word) -> Word:
    """Returns XOR shares of the bits of c - r for a public word c and a shared random word r.

    Args:
        host: the host.
        minuends: public c, of the shape of r.
        bits: XOR shares of r.
        products: shares of the products `first_monomials` of its bits, stacked.

    The first of the three levels is local, because the products of neighbouring bits of r come
    with r. **Cost.** 2 rounds.
    """
    public, shape = ~minuends, (1, *minuends.shape)
    wires = Masked(public.reshape(shape), bits.reshape(shape), products)
    generate, propagate = evaluated(host, [FIRST_GENERATE, [FIRST_PROPAGATE]], wires)
    generate = (bits & public) ^ generate
    for distance in BORROW_DISTANCES:
        last = distance == BORROW_DISTANCES[-1]
        sums = [_generate_terms(distance, (G, False))]
        sums += [] if last else [[_propagate_term(distance)]]
        pair = host.concatenate([propagate.reshape(shape), generate.reshape(shape)])
        more, *rest = evaluated(host, sums, masked(host, pair, [t for each in sums for t in each]))
        generate = generate ^ more
        propagate = rest[0] if rest else propagate
    difference = bits ^ (generate << 1)
    return host.xor_public(difference, minuends)


def suffix_or(host: WordHost, word: Word) -> Word:
    """Returns XOR shares of the words whose bit i is the OR of bits i..63; 3 rounds."""
    negated = host.xor_public(word, -1)
    for distance in (1, 4, 16):
        term = _propagate_term(distance, -1)
        wires = masked(host, negated.reshape((1, *negated.shape)), [term])
        (negated,) = evaluated(host, [[term]], wires, ones=True)
    return host.xor_public(negated, -1)
