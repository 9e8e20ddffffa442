"""Boolean circuits of few rounds: every level joins four neighbours, by dealt products of masks."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from extensions.ring.tuples import Correlation, Dealt, RandomWords, WordMasks
from extensions.ring.words import Factor, Stacks, Sums, Term, Word

P, G = 0, 1
BORROW_DISTANCES = (4, 16)


class WordHost(Stacks, Protocol):
    """What a host offers to the circuits; words are XOR-shared unless called public."""

    def xor_public(self, word: Word, value: Word | int) -> Word:
        """Returns shares of word ^ value for a public value; local."""

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


def _borrow(distance: int, generate: tuple[int, bool] = (G, False), *, last: bool = False) -> Sums:
    """Returns what a group of four lends to the next, and, but at last, whether it passes it on."""
    passed = () if last else ([_propagate_term(distance)],)
    return Sums(_generate_terms(distance, generate), *passed)


_FIRST = _borrow(1, (P, True))
SUBTRAHEND = RandomWords(_FIRST.monomials)
"""A random word r, and the products of its bits that the first level of c - r takes."""
_BORROWS = tuple(
    _borrow(distance, last=distance == BORROW_DISTANCES[-1]) for distance in BORROW_DISTANCES
)
_SUFFIXES = tuple(Sums([_propagate_term(distance, -1)]) for distance in (1, 4, 16))


class Masked(NamedTuple):
    """Wires that are open under masks; all words are stacked.

    Attributes:
        masks: XOR shares of their masks.
        products: XOR shares of the products `extensions.ring.words.Sums.monomials` of masks.
    """

    opened: Word
    masks: Word
    products: Word


def masked(host: WordHost, wires: Word, sums: Sums, dealt: Dealt | None = None) -> Masked:
    """Opens the wires under fresh masks.

    Args:
        dealt: `extensions.ring.tuples.WordMasks` for those wires and sums, if they were dealt for
            this opening already; by default they are dealt now.

    Cost:
        One round.
    """
    correlation = WordMasks(wires.shape[0], sums.monomials)
    masks, products = dealt or host.deal([(correlation, wires[0])])[0]
    (opened,) = host.open_xor([wires ^ masks])
    return Masked(opened, masks, products)


def evaluated(host: WordHost, sums: Sums, wires: Masked, *, ones: bool = False) -> list[Word]:
    """Returns XOR shares of sums of products of the wires' values; local.

    Args:
        ones: whether right shifts bring in ones.
    """
    first = wires.masks[:1]
    of_ones = host.xor_public(first ^ first, -1)
    return sums.evaluated(host, *wires, of_ones, bring_ones=ones)


def subtract_words(host: WordHost, minuends: Word, bits: Word, products: Word) -> Word:
    """Returns XOR shares of the bits of c - r for a public word c and a shared random word r.

    Args:
        minuends: public c, of the shape of r.
        bits: XOR shares of r.
        products: shares of what `SUBTRAHEND` has of them, stacked.

    The first of the three levels is local, because the products of neighbouring bits of r come
    with r. **Cost.** 2 rounds.
    """
    public, shape = ~minuends, (1, *minuends.shape)
    wires = Masked(public.reshape(shape), bits.reshape(shape), products)
    generate, propagate = evaluated(host, _FIRST, wires)
    generate = (bits & public) ^ generate
    for sums in _BORROWS:
        pair = host.concatenate([propagate.reshape(shape), generate.reshape(shape)])
        more, *passed = evaluated(host, sums, masked(host, pair, sums))
        generate = generate ^ more
        propagate = passed[0] if passed else propagate
    difference = bits ^ (generate << 1)
    return host.xor_public(difference, minuends)


def suffix_or(host: WordHost, word: Word) -> Word:
    """Returns XOR shares of the words whose bit i is the OR of bits i..63; 3 rounds."""
    negated = host.xor_public(word, -1)
    for sums in _SUFFIXES:
        wires = masked(host, negated.reshape((1, *negated.shape)), sums)
        (negated,) = evaluated(host, sums, wires, ones=True)
    return host.xor_public(negated, -1)
