"""The building blocks of every ring: exact where arithmetic is, within one unit where it rounds."""

import numpy as np
import pytest

from extensions.privacy.randomness import InsecureSeededSource
from extensions.ring.clear import ClearRing
from extensions.ring.fixed_point import Integers, wrap
from tests.conformance.arenas.arena import UNBIASED, Arena
from tests.helpers.strategies import ALARM, count_p_value

EDGES = [0, 1, 2, 3, 2**62 - 1, 2**62, 2**63 - 1, -1, -2, -3, -(2**62), 1 - 2**63, -(2**63)]


def words(count: int, seed: int = 0) -> Integers:
    """Returns the edges of the ring, every power of two with its neighbours, and random words."""
    near = [sign * (1 << j) + step for j in range(63) for step in (-1, 0, 1) for sign in (1, -1)]
    random = np.random.default_rng(seed).integers(-(2**63), 2**63 - 1, count, endpoint=True)
    return np.concatenate([EDGES, near, random]).astype(np.int64)


def octaves(count: int, bits: int, seed: int = 0) -> Integers:
    """Returns integers below 2^bits in magnitude: the largest, small ones, and every octave."""
    generator = np.random.default_rng(seed)
    magnitudes = np.exp2(generator.uniform(0, bits, count)).astype(np.int64)
    top = (1 << bits) - 1
    edges = [0, 1, -1, 2, -2, top, -top, top - 1, 1 - top, 1 << (bits - 1), -(1 << (bits - 1))]
    signs = generator.choice([-1, 1], count)
    return np.concatenate([edges, np.minimum(magnitudes, top) * signs])


def bits_of(x: Integers) -> Integers:
    return np.stack([(x >> i) & 1 for i in range(64)])


def test_bits_are_those_of_twos_complement(arena: Arena):
    x = words(300)
    (got,) = arena.evaluate("bits", [x], positions=range(64))
    np.testing.assert_array_equal(got, bits_of(x))


def test_bits_come_in_the_order_asked_for_and_in_any_shape(arena: Arena):
    x = words(200)[:240].reshape(4, 5, 12)
    (got,) = arena.evaluate("bits", [x], positions=[63, 0, 17, 5])
    np.testing.assert_array_equal(got, bits_of(x)[[63, 0, 17, 5]])


def test_suffix_or_sets_every_bit_from_the_leading_one_down(arena: Arena):
    x = words(300, seed=1)
    (got,) = arena.evaluate("suffix_or", [x])
    expected = [[int((value % 2**64) >> i != 0) for value in x.tolist()] for i in range(64)]
    np.testing.assert_array_equal(got, expected)


def test_words_are_combined_and_shifted_locally(arena: Arena):
    x, y, mask = words(200, seed=2), words(200, seed=3), 0x7FF0_0FF0_1234_5679
    got = arena.evaluate("word_operations", [x, y], mask=mask)
    expected = [x ^ y, x & mask, x << 7, x >> 9, ((x ^ (y >> 1)) & mask) << 3]
    for own, word in zip(got, expected, strict=True):
        np.testing.assert_array_equal(own, bits_of(word))


THRESHOLDS = [0, 1, -1, 61_440, -61_440, 2**40, -(2**40), 2**62, -(2**62), 2**63 - 1, -(2**63)]


def test_comparisons_are_those_of_integers(arena: Arena):
    near = [t + step for t in THRESHOLDS for step in (-2, -1, 0, 1, 2)]
    x = np.array([v for v in [*near, *words(200, seed=4).tolist()] if -(2**63) <= v < 2**63])
    (got,) = arena.evaluate("less_than", [x], thresholds=THRESHOLDS)
    assert got.shape == (len(THRESHOLDS), len(x))
    for row, t in zip(got.tolist(), THRESHOLDS, strict=True):
        exact = [(v, below) for v, below in zip(x.tolist(), row, strict=True) if abs(v - t) < 2**63]
        assert len(exact) > len(x) / 3
        assert [(v, b) for v, b in exact if b != int(v < t)] == []


def test_truncation_gives_a_neighbour_of_the_quotient_for_every_shift(arena: Arena):
    z, shifts = octaves(400, 62), range(63)
    for m, got in zip(shifts, arena.evaluate("truncate", [z], shifts=shifts), strict=True):
        up = got - (z >> m)
        assert np.isin(up, (0, 1)).all(), m
        assert (up[z & ((1 << m) - 1) == 0] == 0).all(), m


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("fraction", [0.25, 0.5, 0.9])
@pytest.mark.parametrize("arena", UNBIASED, indirect=True)
def test_truncation_has_the_expected_value(arena: Arena, fraction: float, sign: int):
    trials, shift = 40_000, 16
    z = np.full(trials, sign * (12_345 << 30) + round(fraction * 2**shift), dtype=np.int64)
    (got,) = arena.evaluate("truncate", [z], shifts=[shift])
    ups = int((got - (z >> shift)).sum())
    probability = round(fraction * 2**shift) / 2**shift
    assert count_p_value(ups, trials, probability) > ALARM
    assert count_p_value(ups, trials, 0.9 * probability) < ALARM


def test_products_are_exact_modulo_2_to_the_64(arena: Arena):
    x, y = words(0, seed=5)[:240].reshape(6, 40), words(300, seed=6)[-240:].reshape(6, 40)
    got = arena.evaluate("products", [x, y])
    column = y[:, :1]
    expected = [x * y, x * column, x[0] * x[1], x @ y.T, y.T @ x]
    for own, exact in zip(got, expected, strict=True):
        np.testing.assert_array_equal(own, exact)
    one = sum(int(a) * int(b) for a, b in zip(x[1].tolist(), y[2].tolist(), strict=True))
    assert got[3][1, 2] == wrap(one)


def test_local_operations_are_exact_modulo_2_to_the_64(arena: Arena):
    x, y = words(0)[:60].reshape(5, 12), words(60, seed=7)[-60:].reshape(5, 12)
    public = [2**63 - 5, words(60, seed=8)[-60:].reshape(5, 12)]
    rows = [[3, -1, 2**63 + 11], [0, 1 << 62, -7], [-(2**63), 5, 1 << 70]]
    got = arena.evaluate("local_operations", [x, y], public=public, rows=rows)
    combined = [wrap(a) * x + wrap(b) * y - wrap(c) * x for a, b, c in rows]
    expected = [
        x + np.int64(public[0]),
        x + public[1],
        *combined,
        (x - y) * 3,
        x.reshape(-1)[3:].reshape(-1, 1),
        x.sum(0),
        y.sum(-1),
        x[1:, 0],
        x.T,
    ]
    for own, exact in zip(got, expected, strict=True):
        np.testing.assert_array_equal(own, exact)


@pytest.mark.parametrize("scale", [[3.0, 2.0**30], [0.0, 1.5]])
def test_injected_noise_is_that_of_the_clear_ring(arena: Arena, scale: list[float]):
    x = [words(100, seed=9), np.zeros((3, 4), dtype=np.int64)]
    got = arena.evaluate("noise", x, scale=scale, seed=11)
    clear = ClearRing(16, parties=arena.parties)
    expected = clear.add_noise(x, scale, InsecureSeededSource(11))
    for own, theirs in zip(got, expected, strict=True):
        np.testing.assert_array_equal(own, theirs)
    assert (got[1] != x[1]).any()
