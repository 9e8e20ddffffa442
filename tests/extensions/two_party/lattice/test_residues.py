"""Arithmetic modulo primes below 2^60 agrees with Python's integers, at the edges too."""

import numpy as np
import pytest

from extensions.two_party.lattice import residues
from extensions.two_party.lattice.residues import ERROR_BOUND, Stream

PRIMES = (1152921504606683137, 1152921504606748673, 1152921504606830593, 1099511480321)
"""Three below 2^60, and one below 2^40; all are 1 modulo 16384."""
EDGES = np.array([0, 1, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1], dtype=np.uint64)


@pytest.fixture
def drawn():
    return np.concatenate([EDGES, Stream(bytes(32)).words(500)])


def test_the_upper_word_of_a_product(drawn):
    other = drawn[::-1].copy()
    expected = [int(x) * int(y) >> 64 for x, y in zip(drawn, other, strict=True)]
    assert residues.high(drawn, other).tolist() == expected


def test_words_are_scaled_to_the_modulus_of_the_ciphertext(drawn):
    whole = int(np.prod([int(p) for p in PRIMES], dtype=object))
    for prime, row in zip(PRIMES, residues.scaled(drawn, PRIMES), strict=True):
        assert row.tolist() == [((int(x) * whole + 2**63) >> 64) % prime for x in drawn]


def test_products_with_a_public_factor(drawn):
    for prime in PRIMES:
        x = np.concatenate([drawn % np.uint64(prime), np.array([prime - 1], dtype=np.uint64)])
        for factor in (0, 1, 3, 2**64 - 1, prime - 1, 2**100 + 7):
            expected = [int(v) * factor % prime for v in x]
            assert residues.multiply(x, factor, prime).tolist() == expected


def test_sums_opposites_and_small_integers():
    small = np.array([0, 1, -1, 2**58, -(2**63), 2**63 - 1])
    held = residues.of_small(small, PRIMES)
    for prime, row in zip(PRIMES, held, strict=True):
        assert row.tolist() == [int(x) % prime for x in small]
    opposite = residues.negate(held, PRIMES)
    assert not residues.add(held, opposite, PRIMES).any()
    assert (opposite < np.array(PRIMES, dtype=np.uint64)[:, None]).all()


def test_large_integers_are_reduced():
    layers = np.stack([np.stack([EDGES >> np.uint64(shift)] * 3) for shift in (0, 8, 17)])
    offset = 3 << 180
    for prime, row in zip(PRIMES, residues.of_large(layers, offset, PRIMES), strict=True):
        whole = [
            sum(int(word) << 64 * place for place, word in enumerate(words))
            for words in layers[:, 0].T
        ]
        assert row.tolist() == [(3 * x - offset) % prime for x in whole]


def test_a_seed_gives_the_same_uniform_residues_and_another_seed_others():
    first, again = (Stream(b"\1" * 32).residues(2, PRIMES, 512) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert not (first == Stream(b"\2" * 32).residues(2, PRIMES, 512)).any()
    assert (first < np.array(PRIMES, dtype=np.uint64)[:, None]).all()


def test_errors_are_centred_and_as_wide_as_21_pairs_of_bits():
    """Mean and variance of 2^16 draws; six standard errors are one false alarm in 10^9."""
    errors = residues.centred_binomial(Stream(), 8, 8192).ravel()
    assert abs(errors).max() <= ERROR_BOUND
    assert abs(errors.mean()) < 6 * np.sqrt(10.5 / errors.size)
    assert abs(errors.var() - 10.5) < 6 * 10.5 * np.sqrt(2 / errors.size)
