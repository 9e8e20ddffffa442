"""Signs of c - r for public words c and shared random words r: a tree over the bits of a word.

Four neighbouring bits, or groups of them, are joined at each of three levels. Every level works on
the planes of its words (`extensions.ring.planes`) and leaves a quarter of them, so that in the end
a word has the signs of 64.
"""

import functools
import math
from collections.abc import Sequence

from extensions.ring.circuits import Masked, WordHost, evaluated, masked
from extensions.ring.planes import LANES, SIGNS, WIDTHS, lanes, padded, planes, quarter
from extensions.ring.tuples import Dealt, WordMasks
from extensions.ring.words import Factor, Monomial, Term, Word, monomials

_ALL = tuple(range(LANES))
_ALL_LENT, _ALL_PASSED = (0, 2, 4, 6), (1, 3, 5, 7)
"""Places among the planes of what groups lend, each beside that of what they pass on."""
_LENT, _PASSING = (0, 1, 2), (6, 3, 4, 5)
"""Wires of a later level: whether three groups lend to the next, and whether four pass it on."""


def _lent(passing: Sequence[int], lent: Sequence[Factor]) -> list[Term]:
    """What the end of the fourth group has of the three below: P3 G2, P3 P2 G1, P3 P2 P1 G0."""
    return [
        (*(Factor(passing[i], 0) for i in range(LANES - 1, below, -1)), lent[below])
        for below in (2, 1, 0)
    ]


def _passed(passing: Sequence[int]) -> Term:
    return tuple(Factor(wire, 0) for wire in reversed(passing))


_FIRST = _lent(_ALL, [Factor(wire, 0, gated=True) for wire in _ALL])
_FIRST_PASSED = _passed(_ALL)
_LATER = _lent(_PASSING, [Factor(wire, 0) for wire in _LENT])
_LATER_PASSED = _passed(_PASSING)
_ENDS: tuple[list[Term], ...] = ([_LATER_PASSED], [])
"""What the second and the third level compute beside `_LATER`."""


@functools.cache
def first_products() -> tuple[Monomial, ...]:
    """Returns the products of the planes of r that the first level needs."""
    return monomials([*_FIRST, _FIRST_PASSED])


@functools.cache
def later_masks() -> tuple[WordMasks, ...]:
    """Returns what hides the wires of the second and the third level.

    A level has a quarter of the words of the one before, as `extensions.ring.planes.quarter` says.
    """
    return tuple(
        WordMasks(2 * (LANES - 1) + len(passed), monomials([*_LATER, *passed])) for passed in _ENDS
    )


def signs(
    host: WordHost, minuends: Sequence[Word], dealt: Word, later: Sequence[Dealt] | None = None
) -> Word:
    """Returns XOR-shared words with the sign bits of c - r, as `planes.unpacked` takes them.

    Args:
        host: the host.
        minuends: public c, four words of shape (kinds, size).
        dealt: what followed from r by `extensions.ring.tuples.RandomPlanes`, (words, size).
        later: `later_masks` for this comparison; by default each is dealt when it is needed.

    Cost:
        2 rounds; 7/16 and 6/64 of a word opened for each c.
    """
    lent, passing = _of_bits(host, planes([~c for c in minuends], WIDTHS[0]), dealt)
    words = [lent, passing]
    each: Sequence[Dealt | None] = later or [None for _ in _ENDS]
    for width, passed, masks in zip(WIDTHS[1:], _ENDS, each, strict=True):
        words = _of_groups(host, words, width, passed, masks)
    return words[0]


def _of_bits(host: WordHost, public: Sequence[Word], dealt: Word) -> list[Word]:
    """Joins four bits; local, because the products of neighbouring bits of r come with r.

    A bit lends where c has 0 and r has 1, and passes on where they are alike. The sign bit passes
    on, and lends where c and r differ: what leaves it is the sign of the difference.
    """
    kinds, size = public[0].shape
    of_r = dealt.reshape(dealt.shape[0], 1, size)
    first, last = of_r[: LANES - 1], of_r[LANES - 1 : LANES]
    own, signed = public[-1], (public[-1] | SIGNS).reshape(1, kinds, size)
    opened = host.concatenate([*(word.reshape(1, kinds, size) for word in public[:-1]), signed])
    masks = host.concatenate([first, last & ~SIGNS])
    wires = Masked(opened, masks, of_r[LANES:])
    lent, passing = evaluated(host, [_FIRST, [_FIRST_PASSED]], wires)
    ends = host.xor_public((last & signed).reshape(kinds, size), ~own & SIGNS)
    return [ends ^ lent, passing]


def _of_groups(
    host: WordHost, words: Sequence[Word], width: int, passed: list[Term], dealt: Dealt | None
) -> list[Word]:
    """Joins four groups, of words that they lend and that they pass on; one round."""
    size = quarter(math.prod(words[0].shape))
    both = host.concatenate([padded(word, host.concatenate) for word in words])
    rows = host.concatenate(planes(lanes(both, host.concatenate), width))
    each = rows.reshape(len(words) * LANES, size)
    lends, passes = _ALL_LENT, _ALL_PASSED
    wires = each[[*lends[:-1], *passes[1:], *passes[: len(passed)]]]
    sums = [_LATER, passed] if passed else [_LATER]
    opened = masked(host, wires, [*_LATER, *passed], dealt)
    lent, *others = evaluated(host, sums, opened)
    return [each[lends[-1]] ^ lent, *others]
