"""Boolean circuits of few rounds: every level joins four neighbours, by dealt products of masks."""

import functools

import torch

from crypten_ext import tuples
from crypten_ext.opening import is_leader, open_sum, open_xor
from crypten_ext.words import Factor, Monomial, Term, Word, monomials, shift_word, sum_of_products

P, G = 0, 1
BORROW_DISTANCES = (4, 16)


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
    wires: list[Word], terms: list[Term], *, ones: bool = False
) -> tuple[list[Word], dict[Monomial, Word]]:
    """Opens the wires under fresh masks; returns public words and shares of mask products."""
    masks, products = tuples.word_masks(wires[0].shape, len(wires), monomials(terms))
    opened = open_xor([wire ^ mask for wire, mask in zip(wires, masks, strict=True)])
    return opened, _with_singles(products, masks, terms)


def _with_singles(
    products: dict[Monomial, Word], masks: list[Word], terms: list[Term]
) -> dict[Monomial, Word]:
    singles: dict[Monomial, Word] = {
        ((factor.wire, factor.shift),): shift_word(masks[factor.wire], factor.shift)
        for term in terms
        for factor in term
    }
    return {**singles, **products}


def subtract_words(minuends: Word, subtrahend: tuples.RandomWords) -> Word:
    """Returns XOR shares of the bits of c - r for public words c and a shared random word r.

    Args:
        minuends: public c, any number of leading axes before the shape of r.
        subtrahend: r, with the dealt products of its bits.

    The first of the three levels is local, because the products of neighbouring bits of r come
    with r. **Cost.** 2 rounds.
    """
    leader = is_leader()
    public = ~minuends
    own = _with_singles(subtrahend.products, [subtrahend.bits], [*FIRST_GENERATE, FIRST_PROPAGATE])
    bits = subtrahend.bits
    generate = (public & bits) ^ sum_of_products(FIRST_GENERATE, [public], own, leader=leader)
    propagate = sum_of_products([FIRST_PROPAGATE], [public], own, leader=leader)
    for distance in BORROW_DISTANCES:
        last = distance == BORROW_DISTANCES[-1]
        terms = _generate_terms(distance, (G, False))
        spread = [] if last else [_propagate_term(distance)]
        opened, masks = _masked([propagate, generate], [*terms, *spread])
        generate = generate ^ sum_of_products(terms, opened, masks, leader=leader)
        if not last:
            propagate = sum_of_products(spread, opened, masks, leader=leader)
    difference = bits ^ (generate << 1)
    return difference ^ minuends if leader else difference.expand(minuends.shape)


def differences(x: torch.Tensor, constants: list[int]) -> Word:
    """Returns XOR shares of the bits of x - t for each public t, on a new leading axis; 3 rounds.

    x + r is opened once for all t (r uniform and dealt with its bits), so that x - t = c - t - r.
    """
    r = tuples.random_words(x.shape, first_monomials())
    (c,) = open_sum([x + r.value])
    return subtract_words(torch.stack([c - t for t in constants]), r)


def suffix_or(word: Word) -> Word:
    """Returns XOR shares of the words whose bit i is the OR of bits i..63; 3 rounds."""
    leader = is_leader()
    negated = ~word if leader else word
    for distance in (1, 4, 16):
        term = _propagate_term(distance, -1)
        opened, masks = _masked([negated], [term])
        negated = sum_of_products([term], opened, masks, leader=leader, ones=True)
    return ~negated if leader else negated
