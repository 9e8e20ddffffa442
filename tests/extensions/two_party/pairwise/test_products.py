"""Products of what is shared: every way to share a bit, all places of words, all corners."""

from itertools import product

import numpy as np
import pytest

from extensions.ring import circuits
from extensions.ring.comparison import LATER_MASKS, SUBTRAHENDS
from extensions.ring.words import products_of
from extensions.two_party.pairwise import transfers
from extensions.two_party.pairwise.bits import ands, factored, monomials_of
from extensions.two_party.pairwise.matrices import product as matrix_product
from extensions.two_party.pairwise.matrices import row_norms
from extensions.two_party.pairwise.words import integers_of_bits, squares, times_bits, times_words
from extensions.two_party.pairwise.wraps import count_wraps
from tests.helpers.pairwise import combined

CORNERS = np.array([0, 1, -1, 2**63 - 1, -(2**63), 0x5555555555555555], dtype=np.int64)


def shared_bits(parties, secrets):
    """Returns words (secrets, words) for each party: places have all ways to share all bits."""
    ways = np.array(list(product((0, 1), repeat=parties * secrets)), dtype=np.uint8)
    places = np.resize(ways, (64 * -(-len(ways) // 64), parties * secrets)).T
    words = np.packbits(np.ascontiguousarray(places), axis=1, bitorder="little").view("<i8")
    return words.astype(np.int64).reshape(parties, secrets, -1)


def drawn(parties, shape, seed=0):
    draws = np.random.default_rng([24, seed])
    shares = draws.integers(-(2**63), 2**63 - 1, (parties, *shape), endpoint=True)
    flat = shares.reshape(parties, -1)
    flat[0, : len(CORNERS)] = CORNERS[: flat.shape[1]]
    return shares


def test_ands_of_all_ways_to_share_bits(parties):
    shares = shared_bits(parties.number, 2)
    found = parties.run(lambda p: ands(p, shares[p.rank, 0], shares[p.rank][[1, 0]]))
    x, y = combined(shares, "xor")
    np.testing.assert_array_equal(combined(found, "xor"), [x & y, x])


def test_a_factor_of_more_products_than_a_word_has_bits(parties):
    shares = drawn(parties.number, (70, 2))
    found = parties.run(lambda p: ands(p, shares[p.rank, 0], shares[p.rank]))
    words = combined(shares, "xor")
    np.testing.assert_array_equal(combined(found, "xor"), words[0] & words)


def test_what_is_made_in_portions_is_as_right(three, monkeypatch):
    monkeypatch.setattr(transfers, "MOST", 200)
    shares = drawn(3, (3, 11))
    found = three.run(lambda p: ands(p, shares[p.rank, 0], shares[p.rank]))
    words = combined(shares, "xor")
    np.testing.assert_array_equal(combined(found, "xor"), words[0] & words)
    found = three.run(lambda p: times_words(p, shares[p.rank, 0], shares[p.rank]))
    words = combined(shares, "sum")
    np.testing.assert_array_equal(combined(found, "sum"), words[0] * words)


@pytest.mark.parametrize("kept", [1, 3, 8])
def test_bits_become_integers_whatever_their_shares(parties, kept):
    ways = np.array(list(product((0, 1), repeat=parties.number)), dtype=np.uint8).T
    found = parties.run(lambda p: integers_of_bits(p, ways[p.rank][:, None], np.array([kept])))
    total = combined(found, "sum")[:, 0].view(np.uint64) % np.uint64(
        256**kept if kept < 8 else 2**63
    )
    np.testing.assert_array_equal(total, np.bitwise_xor.reduce(ways))


def test_words_times_bits_whatever_their_shares(parties):
    ways = np.array(list(product((0, 1), repeat=parties.number)), dtype=np.uint8).T
    bits = np.repeat(ways, len(CORNERS), axis=1)
    words = drawn(parties.number, (2, bits.shape[1]))
    found = parties.run(lambda p: times_bits(p, bits[p.rank], words[p.rank]))
    expected = np.bitwise_xor.reduce(bits) * combined(words, "sum")
    np.testing.assert_array_equal(combined(found, "sum"), expected)


def test_products_and_squares_of_words(parties):
    x, ys = drawn(parties.number, (40,)), drawn(parties.number, (3, 40), 1)
    found = parties.run(lambda p: times_words(p, x[p.rank], ys[p.rank]))
    expected = combined(x, "sum") * combined(ys, "sum")
    np.testing.assert_array_equal(combined(found, "sum"), expected)
    found = parties.run(lambda p: squares(p, x[p.rank]))
    np.testing.assert_array_equal(combined(found, "sum"), combined(x, "sum") ** 2)


@pytest.mark.parametrize("shape", [(2, 3, 1), (5, 80, 20), (40, 7, 90)])
def test_products_of_matrices(parties, shape):
    rows, inner, columns = shape
    x, w = drawn(parties.number, (rows, inner)), drawn(parties.number, (inner, columns), 1)
    found = parties.run(lambda p: matrix_product(p, x[p.rank], w[p.rank]))
    np.testing.assert_array_equal(combined(found, "sum"), combined(x, "sum") @ combined(w, "sum"))


@pytest.mark.parametrize(("rows", "width"), [(3, 2), (0, 4), (19, 512), (2, 2000)])
def test_squared_norms_of_rows(three, rows, width):
    x = drawn(3, (rows, width))
    found = three.run(lambda p: row_norms(p, x[p.rank]))
    words = combined(x, "sum")
    np.testing.assert_array_equal(combined(found, "sum"), (words * words).sum(axis=-1))


def test_wraps_of_all_corners(parties):
    corners = np.array([0, 1, -1, 2**63 - 1, -(2**63) + 1, 2**62], dtype=np.int64)
    shares = np.array(list(product(corners, repeat=parties.number))).T
    found = parties.run(lambda p: count_wraps(p, shares[p.rank]))
    exact = shares.astype(object).sum(axis=0)
    wraps = (exact - combined(shares, "sum").astype(object)) >> 64
    np.testing.assert_array_equal(combined(found, "sum"), wraps.astype(np.int64))


SETS = {
    "first of a comparison": SUBTRAHENDS.products,
    "second": LATER_MASKS[0].products,
    "third": LATER_MASKS[1].products,
    "first of a subtraction": circuits.SUBTRAHEND.products,
    "one alone": (((0, 0),), ((0, 0), (1, -3), (1, 2))),
}


@pytest.mark.parametrize("name", SETS)
def test_products_of_masks(three, name):
    monomials = SETS[name]
    wires = 1 + max(wire for monomial in monomials for wire, _ in monomial)
    shares = drawn(3, (wires, 6))
    found = three.run(lambda p: monomials_of(p, list(shares[p.rank]), monomials))
    expected = products_of(monomials, list(combined(shares, "xor")))
    np.testing.assert_array_equal(combined(found, "xor"), expected)


def test_four_neighbours_take_three_transfers_as_a_tree_of_pairs_does():
    """Of a tree of pairs each node takes P1 times G0 and P0: one factor, 3 nodes for 4 leaves."""
    pair = (((0, 0), (1, 0)), ((0, 0), (2, 0)))
    assert len(factored(pair)) == 1
    for monomials in (SUBTRAHENDS.products, *(level.products for level in LATER_MASKS)):
        assert len(factored(monomials)) == 3
        assert len(monomials) > 3
