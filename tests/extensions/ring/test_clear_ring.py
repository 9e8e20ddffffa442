"""The plaintext ring rounds as each mode says, wraps modulo 2^64 and sums one draw per party."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extensions.privacy.randomness import InsecureSeededSource
from extensions.ring.clear import ClearRing
from extensions.ring.fixed_point import wrap
from tests.helpers.refused import refused
from tests.helpers.strategies import ALARM, PROPERTY, ROUNDINGS, count_p_value

WORD = st.integers(-(2**63), 2**63 - 1)
SAFE = st.integers(-(2**62) + 1, 2**62 - 1)


def array(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


@PROPERTY
@given(st.sampled_from(ROUNDINGS), SAFE, st.integers(0, 62), st.integers(0, 2**32))
def test_truncation_returns_a_neighbour_of_the_quotient(rounding, z, shift, seed):
    ring = ClearRing(16, rounding=rounding, seed=seed)
    (result,) = ring.truncate([(array(z), shift)])
    exact = Fraction(z, 1 << shift)
    floor = exact.__floor__()
    ceiling = exact.__ceil__()
    allowed = {"floor": {floor}, "ceiling": {ceiling}}.get(rounding, {floor, ceiling})
    assert int(result[0]) in allowed


@pytest.mark.parametrize("rounding", ["probabilistic", "extreme"])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    ("shift", "fraction"), [(4, 1), (10, 700), (44, 2**44 - 2**41), (62, 2**60)]
)
def test_the_rounding_coin_has_the_stated_probability(rounding, sign, shift, fraction):
    trials = 100_000
    z = np.full(trials, sign * ((5 << shift) % 2**61) + fraction, dtype=np.int64)
    (result,) = ClearRing(16, rounding=rounding).truncate([(z, shift)])
    ups = int((result - (z >> shift)).sum())
    probability = fraction / 2.0**shift if rounding == "probabilistic" else 0.5
    assert count_p_value(ups, trials, probability) > ALARM
    assert count_p_value(ups, trials, 0.75 * probability) < ALARM


def test_equal_seeds_flip_equal_coins_and_no_seed_flips_new_ones():
    z = np.arange(1000, dtype=np.int64) * 7 + 3

    def round_with(seed: int | None) -> list[int]:
        return ClearRing(16, seed=seed).truncate([(z, 5)])[0].tolist()

    assert round_with(1) == round_with(1)
    assert round_with(1) != round_with(2)
    assert round_with(None) != round_with(None)


@pytest.mark.parametrize("shift", [-1, 63, 64])
def test_impossible_shifts_are_refused(shift):
    with refused("shift", "range", value=shift):
        ClearRing(16).truncate([(array(1), shift)])


@PROPERTY
@given(WORD, WORD, st.integers(-(2**80), 2**80))
def test_arithmetic_is_modulo_2_to_the_64(x, y, public):
    ring = ClearRing(16)
    a, b = array(x), array(y)
    assert ring.add_public(a, public)[0] == wrap(x + public)
    assert ring.add_public(a, b)[0] == wrap(x + y)
    assert ring.mul([(a, b)])[0][0] == wrap(x * y)
    rows = ring.linear(ring.stack([a, b]), [[public, 3], [1, -(2**63)]])
    assert [row[0] for row in rows] == [wrap(public * x + 3 * y), wrap(x - 2**63 * y)]
    (product,) = ring.matmul([(array(x, y).reshape(1, 2), array(y, 5).reshape(2, 1))])
    assert product[0, 0] == wrap(x * y + 5 * y)


@PROPERTY
@given(WORD)
def test_bits_are_those_of_twos_complement(x):
    ring = ClearRing(16)
    bits = ring.bit_decompose(array(x))
    values = ring.bits_to_arithmetic(bits, range(64))[:, 0].tolist()
    assert values == [(x >> i) & 1 for i in range(64)]
    suffix = ring.bits_to_arithmetic(ring.suffix_or(bits), range(64))[:, 0].tolist()
    assert suffix == [int(any(values[i:])) for i in range(64)]
    picked = ring.bits_to_arithmetic(bits, [63, 0, 5])[:, 0].tolist()
    assert picked == [values[63], values[0], values[5]]


@PROPERTY
@given(SAFE, st.lists(SAFE, min_size=1, max_size=4))
def test_comparisons_have_one_leading_axis_for_the_thresholds(x, thresholds):
    words = ClearRing(16).less_than(array(x, x - 1), thresholds)
    assert words.tolist() == [[int(x < t), int(x - 1 < t)] for t in thresholds]


@pytest.mark.parametrize("parties", [1, 2, 3, 5])
def test_noise_is_the_sum_of_one_draw_per_party_and_share(parties):
    x = [np.zeros((4, 3), dtype=np.int64), np.full(5, 2**40)]
    scale = [100.0, 7.5]
    noisy = ClearRing(16, parties=parties).add_noise(x, scale, InsecureSeededSource(9))
    replay = InsecureSeededSource(9)
    expected = [value.copy() for value in x]
    for party in range(parties):
        for total, s in zip(expected, scale, strict=True):
            total += replay.gaussian(party, s, total.shape)
    for got, want in zip(noisy, expected, strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("argument", "code", "value"),
    [
        ("frac_bits", "range", 7),
        ("frac_bits", "range", 25),
        ("parties", "range", 0),
        ("rounding", "choice", "nearest"),
    ],
)
def test_a_ring_that_cannot_be_is_refused(argument, code, value):
    with refused(argument, code, value):
        ClearRing(**{"frac_bits": 16, argument: value})
