"""Signs of c - r for public words c and shared random words r: a tree over the bits of a word.

Four neighbouring bits, or groups of them, are joined at each of three levels. Every level works on
the planes of its words (`extensions.ring.planes`) and leaves a quarter of them, so that in the end
a word has the signs of 64.
"""

import functools
from collections.abc import Mapping, Sequence

from extensions.ring.circuits import WordHost, masked, with_singles
from extensions.ring.planes import LANES, SIGNS, WIDTHS, lanes, planes, without_signs
from extensions.ring.words import Factor, Monomial, Term, Word, monomials, sum_of_products

_ALL = tuple(range(LANES))
_LENT, _PASSING = (0, 1, 2), (6, 3, 4, 5)
"""Wires of a later level: whether three groups lend to the next, and whether four pass it on."""


def _lent(passing: Sequence[int], lent: Sequence[Factor]) -> list[Term]:
    """What the end of the fourth group has of the three below: P3 G2, P3 P2 G1, P3 P2 P1 G0."""
    return [
        (*(Factor(passing[i], 0) for i in range(LANES - 1, below, -1)), lent[below])
        for below in (2, 1, 0)
    ]


def _passed(passing: Sequence[int]) -> Term:
    return tuple(Factor(wire, 0) for wire in passing)


_FIRST = _lent(_ALL, [Factor(wire, 0, gated=True) for wire in _ALL])
_FIRST_PASSED = _passed(_ALL)
_LATER = _lent(_PASSING, [Factor(wire, 0) for wire in _LENT])
_LATER_PASSED = _passed(_PASSING)


@functools.cache
def first_products() -> tuple[Monomial, ...]:
    """Returns the products of the planes of r that the first level needs."""
    return monomials([*_FIRST, _FIRST_PASSED])


def signs(
    host: WordHost, minuends: Sequence[Word], mask: Sequence[Word], products: Sequence[Word]
) -> Word:
    """Returns XOR-shared words with the sign bits of c - r, as `planes.unpacked` takes them.

    Args:
        host: the host.
        minuends: public c, four words of shape (kinds, size).
        mask: the planes of r, (size,) each, shared by XOR.
        products: `first_products` of `without_signs` of them, shared by XOR.

    Cost:
        2 rounds; 7/16 and 6/64 of a word opened for each c.
    """
    public = planes([~c for c in minuends], WIDTHS[0])
    lent, passing = _of_bits(host, public, mask, dict(zip(first_products(), products, strict=True)))
    lent, passing = _of_groups(host, lent, passing, WIDTHS[1], [_LATER_PASSED])
    lent, _ = _of_groups(host, lent, passing, WIDTHS[2], [])
    return lent


def _of_bits(
    host: WordHost,
    public: Sequence[Word],
    mask: Sequence[Word],
    products: Mapping[Monomial, Word],
) -> tuple[Word, Word]:
    """Joins four bits; local, because the products of neighbouring bits of r come with r.

    A bit lends where c has 0 and r has 1, and passes on where they are alike. The sign bit passes
    on, and lends where c and r differ: what leaves it is the sign of the difference.
    """
    add_up = functools.partial(sum_of_products, xor_public=host.xor_public)
    known = with_singles(products, without_signs(mask), [*_FIRST, _FIRST_PASSED])
    opened = [*public[:-1], public[-1] | SIGNS]
    lent = host.xor_public(opened[-1] & mask[-1], ~public[-1] & SIGNS)
    return lent ^ add_up(_FIRST, opened, known), add_up([_FIRST_PASSED], opened, known)


def _of_groups(
    host: WordHost, lent: Word, passing: Word, width: int, passed: list[Term]
) -> tuple[Word, Word | None]:
    """Joins four groups; one round."""
    add_up = functools.partial(sum_of_products, xor_public=host.xor_public)
    lends = planes(lanes(lent, host.concatenate), width)
    passes = planes(lanes(passing, host.concatenate), width)
    wires = [*lends[:-1], *passes[1:], *passes[: len(passed)]]
    opened, known = masked(host, wires, [*_LATER, *passed])
    return (
        lends[-1] ^ add_up(_LATER, opened, known),
        add_up(passed, opened, known) if passed else None,
    )
