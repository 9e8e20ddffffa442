"""Products of shifted words, of which a circuit has each dealt once however far it is shifted."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extensions.ring.circuits import BORROW_DISTANCES, SUBTRAHEND
from extensions.ring.words import Factor, Sums, products_of, shift_word, unshifted

WIRES = 2
WORDS = st.lists(st.integers(-(2**63), 2**63 - 1).map(np.int64), min_size=WIRES, max_size=WIRES)


def monomials(side: int):
    mask = st.tuples(st.integers(0, WIRES - 1), st.integers(0, 63).map(lambda n: side * n))
    return st.lists(mask, min_size=1, max_size=4, unique=True).map(lambda m: tuple(sorted(m)))


@given(st.sampled_from([1, -1]).flatmap(monomials), WORDS)
def test_a_product_is_that_of_which_it_is_a_shift(monomial, words):
    own, shift = unshifted(monomial)
    assert min(abs(s) for _, s in own) == 0
    assert unshifted(own) == (own, 0)
    (product,) = products_of([own], words)
    (expected,) = products_of([monomial], words)
    assert shift_word(product, shift) == expected


def test_a_product_of_words_on_both_sides_stays():
    assert unshifted(((0, -2), (0, 1))) == (((0, -2), (0, 1)), 0)


@pytest.mark.parametrize("distance", [-1, 1, *BORROW_DISTANCES])
def test_none_is_dealt_twice(distance):
    """Of four neighbours: three pairs by their distance, three triples, and all four."""
    sums = Sums([tuple(Factor(0, i * distance) for i in range(4))])
    assert len(sums.monomials) == 7
    assert len({unshifted(monomial) for monomial in sums.monomials}) == 7


def test_a_random_word_comes_with_seven_products():
    assert len(SUBTRAHEND.products) == 7
