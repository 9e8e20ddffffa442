"""Signs of c - r for public words c and shared random words r: a tree over the bits of a word.

Four neighbouring bits, or groups of them, are joined at each of three levels. Every level works on
the planes of its words (`extensions.ring.planes`) and leaves a quarter of them, so that in the end
a word has the signs of 64.
"""

import math
from collections.abc import Sequence

from extensions.ring.circuits import Masked, WordHost, evaluated, masked
from extensions.ring.planes import LANES, SIGNS, WIDTHS, lanes, padded, planes, quarter
from extensions.ring.tuples import Dealt, RandomPlanes, WordMasks
from extensions.ring.words import Factor, Sums, Term, Word

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


_FIRST = Sums(_lent(_ALL, [Factor(wire, 0, gated=True) for wire in _ALL]), [_passed(_ALL)])
SUBTRAHENDS = RandomPlanes(_FIRST.monomials)
"""Four random words r, and the products of their planes that the first level takes."""
_LATER = _lent(_PASSING, [Factor(wire, 0) for wire in _LENT])
_WIRES = (*_ALL_LENT[:-1], *_ALL_PASSED[1:])
_LEVELS = (((*_WIRES, _ALL_PASSED[0]), Sums(_LATER, [_passed(_PASSING)])), (_WIRES, Sums(_LATER)))
"""Places of the wires of the second and the third level, which passes nothing on."""
LATER_MASKS = tuple(WordMasks(len(places), sums.monomials) for places, sums in _LEVELS)
"""What hides those wires.

A level has a quarter of the words of the one before, as `extensions.ring.planes.quarter` says.
"""


def signs(
    host: WordHost, minuends: Sequence[Word], dealt: Word, later: Sequence[Dealt] | None = None
) -> Word:
    """Returns XOR-shared words with the sign bits of c - r, as `planes.unpacked` takes them.

    Args:
        minuends: public c, four words of shape (kinds, size).
        dealt: what followed from r by `SUBTRAHENDS`, (words, size).
        later: `LATER_MASKS` for this comparison; by default each is dealt when it is needed.

    Cost:
        2 rounds; 7/16 and 6/64 of a word opened for each c.
    """
    lent, passing = _of_bits(host, planes([~c for c in minuends], WIDTHS[0]), dealt)
    words = [lent, passing]
    each: Sequence[Dealt | None] = later or [None for _ in _LEVELS]
    for width, (places, sums), masks in zip(WIDTHS[1:], _LEVELS, each, strict=True):
        groups = _groups(host, words, width)
        wires = masked(host, host.pick(groups, places), sums, masks)
        lent, *words = evaluated(host, sums, wires)
        words = [groups[_ALL_LENT[-1]] ^ lent, *words]
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
    lent, passing = evaluated(host, _FIRST, wires)
    ends = host.xor_public((last & signed).reshape(kinds, size), ~own & SIGNS)
    return [ends ^ lent, passing]


def _groups(host: WordHost, words: Sequence[Word], width: int) -> Word:
    """Returns four groups of words that they lend and that they pass on, one beside the other."""
    size = quarter(math.prod(words[0].shape))
    both = host.concatenate([padded(word, host.concatenate) for word in words])
    rows = host.concatenate(planes(lanes(both, host.concatenate), width))
    return rows.reshape(len(words) * LANES, size)
