"""ANDs of words that are shared by XOR: one factor of many products is chosen by once.

Of the products of up to four masks that a circuit takes (`extensions.ring.words.Sums`) those with
one factor in common follow from one transfer a bit, whatever their number. So four neighbours are
joined by three transfers, as many as a tree of pairs takes, which has twice as many rounds online.
"""

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from extensions.ring.fixed_point import Integers
from extensions.ring.words import Mask, Monomial, shift_word
from extensions.two_party.pairwise.peers import Peers
from extensions.two_party.pairwise.rounds import Making
from extensions.two_party.pairwise.transfers import Bitwise, all_pairs, bits_of_words, products


class Together(NamedTuple):
    """Products that have one factor in common: that factor, and what it is multiplied by."""

    factor: Mask
    others: tuple[Monomial, ...]


@lru_cache(maxsize=64)
def factored(monomials: tuple[Monomial, ...]) -> tuple[Together, ...]:
    """Returns how products follow from each other, in an order in which they do.

    Each step takes one transfer a bit for every ordered pair of parties.
    """
    pending, steps = {m for m in monomials if len(m) > 1}, []
    while pending:
        counts = Counter(mask for monomial in pending for mask in monomial)
        factor = max(sorted(counts), key=counts.__getitem__)
        having = {monomial for monomial in pending if factor in monomial}
        others = {tuple(mask for mask in monomial if mask != factor) for monomial in having}
        steps.append(Together(factor, tuple(sorted(others))))
        pending = (pending - having) | {other for other in others if len(other) > 1}
    return tuple(reversed(steps))


def monomials_of(
    peers: Peers, words: Sequence[Integers], monomials: tuple[Monomial, ...]
) -> Making[Integers]:
    """Returns XOR shares of the products of shifted words, (monomials, *shape).

    Cost:
        Two rounds for each step of `factored`.
    """
    known: dict[Monomial, Integers] = {
        (mask,): shift_word(words[mask[0]], mask[1]) for m in monomials for mask in m
    }
    for factor, others in factored(monomials):
        found = yield from ands(peers, known[factor,], np.stack([known[one] for one in others]))
        for one, word in zip(others, found, strict=True):
            known[tuple(sorted((*one, factor)))] = word
    if not monomials:
        return np.empty((0, *words[0].shape), dtype=np.int64)
    return np.stack([known[monomial] for monomial in monomials])


def ands(peers: Peers, x: Integers, ys: Integers) -> Making[Integers]:
    """Returns XOR shares of x & y for each y of ys, (columns, *shape), given XOR shares.

    Cost:
        Two rounds; to each other party 256 bytes a word of x, and 8 a word of ys.
    """
    form = Bitwise(len(ys), x.size)
    flat = ys.reshape(len(ys), -1)
    choices = bits_of_words(x).reshape(-1)
    crossed = yield from products(peers, form, choices, flat, all_pairs)
    return (crossed ^ (flat & x.reshape(-1))).reshape(ys.shape)
