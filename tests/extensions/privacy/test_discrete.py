"""Discrete Gaussians drawn in NumPy: their law to the ends, fresh words for each, little memory."""

import math
import os
import random
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest

from extensions.privacy import discrete
from extensions.privacy.discrete import beyond, discrete_gaussian
from extensions.privacy.gaussian_table import digits
from extensions.privacy.randomness import SystemSource
from tests.helpers.refused import refused
from tests.helpers.strategies import (
    ALARM,
    BINS_LIMIT,
    bins_statistic,
    count_p_value,
    histogram_p_value,
)

TOP = 2**63 - 1


@pytest.mark.parametrize("scale", [3.0, 400.0, 2.0**46])
def test_draws_have_the_distribution_and_a_wrong_scale_is_found(scale):
    """50,000 draws: each test fails by chance with probability 1e-9."""
    count = 50_000
    runs = [SystemSource().gaussian(party, scale, (count,)) for party in (0, 1)]
    for run in runs:
        assert bins_statistic(run, scale) < BINS_LIMIT < bins_statistic(run, 1.05 * scale)
    difference = (runs[0] - runs[1]) / scale / math.sqrt(2)
    assert abs(np.mean(difference**2) - 1.0) < 6.2 * math.sqrt(2 / count)


def test_words_are_uniform_and_of_the_generator():
    """63 bits, each a fair coin."""
    words = discrete._uniform_words(10_000, os.urandom)
    assert words.min() >= 0
    for bit in range(63):
        assert count_p_value(int((words >> bit & 1).sum()), words.size, 0.5) > ALARM
    assert discrete._uniform_words(32, lambda size: bytes(range(size))).tolist() == [
        int.from_bytes(bytes(range(i, i + 8)), "little") & TOP for i in range(0, 256, 8)
    ]


def test_every_digit_of_every_value_has_words_of_its_own(monkeypatch):
    """The values are what the tables say, in whatever pieces they are drawn."""
    given = []

    def words(count, _):
        given.append(np.random.default_rng(len(given)).integers(0, TOP, count, endpoint=True))
        return given[-1]

    monkeypatch.setattr(discrete, "_uniform_words", words)
    monkeypatch.setattr(discrete, "_AT_ONCE", 8)
    table, scale = digits(2.0**30), 2.0**30
    drawn = discrete_gaussian(scale, (3, 7)).ravel()
    assert [each.size for each in given] == [8] * 10 + [5] * 5
    for start in (0, 8, 16):
        own, given = given[: len(table)], given[len(table) :]
        pairs = zip(table, own, strict=True)
        expected = sum(digit.weight * digit.look_up(u, pytest.fail) for digit, u in pairs)
        np.testing.assert_array_equal(drawn[start : start + 8], expected)


def test_what_lies_beyond_a_table_is_drawn_beyond_it(monkeypatch):
    """With words that no table reaches; 64 signs that are all alike have a chance of 2^-63."""
    monkeypatch.setattr(discrete, "_uniform_words", lambda count, _: np.full(count, TOP))
    for scale in (3.0, 0.125):
        (digit,) = digits(scale)
        drawn = discrete_gaussian(scale, (64,))
        assert (np.abs(drawn) > digit.largest).all()
        assert {-1, 1} == set(np.sign(drawn).tolist())
    low, high = digits(300.0)
    (drawn,) = discrete_gaussian(300.0, (1,)).tolist()
    assert abs(drawn) > 64 * (high.largest + 1) - 40 * 128
    assert low.weight == 1


@pytest.mark.parametrize(("variance", "largest"), [(Fraction(9), 4), (Fraction(9, 16), 1)])
def test_the_law_beyond_a_table_is_that_of_the_rest(variance, largest):
    """Values beyond the edge have a chance below 1e-8 each."""
    allowed = [k for size in range(largest + 1, largest + 15) for k in (-size, size)]
    draws = [beyond(variance, largest) for _ in range(3000)]
    inside = [draw for draw in draws if draw in allowed]
    assert min(map(abs, draws)) > largest
    assert len(draws) - len(inside) < 4

    def p_value(variance: Fraction) -> float:
        weights = [math.exp(-(k**2) / (2 * variance)) for k in allowed]
        chances = [weight / sum(weights) for weight in weights]
        return histogram_p_value([inside.count(k) for k in allowed], chances)

    assert p_value(variance) > ALARM > p_value(2 * variance)


def test_of_equal_bytes_draws_are_equal_also_beyond_a_table(monkeypatch):
    """Nothing else is drawn from."""
    whole = [discrete_gaussian(9e5, (700,), random.Random(1).randbytes) for _ in range(2)]
    np.testing.assert_array_equal(*whole)
    monkeypatch.setattr(discrete, "_uniform_words", lambda count, _: np.full(count, TOP))
    beyond_it = [discrete_gaussian(3.0, (64,), random.Random(2).randbytes) for _ in range(2)]
    np.testing.assert_array_equal(*beyond_it)
    other = discrete_gaussian(3.0, (64,), random.Random(3).randbytes)
    assert other.tolist() != beyond_it[0].tolist()


@pytest.mark.parametrize("limit", [1, 2, 5, 256, 1000])
def test_integers_below_a_limit_are_uniform(limit):
    """Of up to 50 kinds of values; all are drawn of whole bytes by rejection."""
    kinds = min(limit, 50)
    drawn = [discrete._below(limit, os.urandom) for _ in range(10_000)]
    assert 0 <= min(drawn) <= max(drawn) < limit
    counts = [0] * kinds
    for value in drawn:
        counts[value * kinds // limit] += 1
    sizes = [len([v for v in range(limit) if v * kinds // limit == k]) for k in range(kinds)]
    assert histogram_p_value(counts, [size / limit for size in sizes]) > ALARM


@pytest.mark.parametrize("exponent", [Fraction(0), Fraction(1, 3), Fraction(1), Fraction(5, 2)])
def test_events_have_the_exponential_probability(exponent):
    happened = sum(discrete._happens(exponent, os.urandom) for _ in range(10_000))
    assert count_p_value(happened, 10_000, math.exp(-exponent)) > ALARM
    assert count_p_value(happened, 10_000, 0.6 * math.exp(-exponent)) < ALARM


def test_a_million_values_take_little_more_memory_than_themselves():
    discrete_gaussian(2.0**20, (1,))
    tracemalloc.start()
    try:
        drawn = discrete_gaussian(2.0**20, (1000, 1000))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < drawn.nbytes + 4e6


@pytest.mark.parametrize("scale", [1e-9, 0.12])
def test_a_scale_without_a_table_is_refused(scale):
    with refused("scale", "range", scale):
        discrete_gaussian(scale, (3,))
