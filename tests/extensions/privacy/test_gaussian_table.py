"""Tables of discrete Gaussians: the exact distribution of what is looked up in them."""

import functools
import math
from collections.abc import Iterator
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from extensions.privacy.gaussian_table import (
    BASE,
    CUT,
    LOW_DIGIT_SCALE,
    LOWER_BITS,
    MAX_DIGITS,
    UNSETTLED,
    UPPER_BITS,
    WORD_BITS,
    Digit,
    digits,
    failure_bound,
)
from tests.helpers.refused import refused
from tests.helpers.strategies import BINS_LIMIT, bins_statistic

pytestmark = pytest.mark.usefixtures("precise")

NARROW = [0.125, 0.2, 1.0, 1.999]
SCALES = [2.0, 2.01, 3.46, 3.7, 128.0, 256.0, 256.001, 1000.0, 2.0**14 + 1, 1e6, 2.0**30, 2.0**45]
FACTOR = Decimal(2) ** -58


@pytest.fixture
def precise() -> Iterator[None]:
    with localcontext() as context:
        context.prec = 80
        yield


def pmf(digit: Digit) -> dict[int, Decimal]:
    """Returns the exact probability of each value of a digit, from its table.

    The one after the largest stands for all that lie beyond.
    """
    words = [(int(h) << WORD_BITS) + int(v) for h, v in zip(digit.high, digit.low, strict=True)]
    steps = np.diff(np.array([0, *words, 4**WORD_BITS], dtype=object))
    return {i - digit.largest: Decimal(int(step)) / 4**WORD_BITS for i, step in enumerate(steps)}


@functools.cache
def ideal(variance: Fraction) -> dict[int, Decimal]:
    """Returns the discrete Gaussian up to 40 standard deviations; beyond are less than 2^-1000.

    Weights exp(-x^2 / 2s^2) follow from one another, at a loss of 7 of 80 digits at most.
    """
    rate = -Decimal(variance.denominator) / Decimal(2 * variance.numerator)
    step, ratio, above = rate.exp(), (2 * rate).exp(), [Decimal(1)]
    for _ in range(math.ceil(40 * math.sqrt(variance)) + 1):
        above.append(above[-1] * step)
        step *= ratio
    total = 2 * sum(above) - 1
    return {x: p / total for k, p in enumerate(above) for x in (k, -k)}


def completed(digit: Digit) -> dict[int, Decimal]:
    """Returns the law of a digit if what lies beyond its table is drawn exactly."""
    law, exact = pmf(digit), ideal(digit.variance)
    tail = {x: p for x, p in exact.items() if abs(x) > digit.largest}
    share = law.pop(digit.largest + 1) / sum(tail.values())
    return law | {x: share * p for x, p in tail.items()}


def draw(scale: float, count: int, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    words = lambda: generator.integers(0, 2**WORD_BITS, count)  # noqa: E731
    return sum(digit.weight * digit.look_up(words(), words) for digit in digits(scale))


@pytest.mark.parametrize("scale", SCALES)
def test_the_variances_of_the_digits_add_up_exactly(scale: float):
    got = digits(scale)
    assert [digit.weight for digit in got] == [BASE**i for i in range(len(got))]
    assert sum(digit.weight**2 * digit.variance for digit in got) == Fraction(scale) ** 2
    assert {digit.variance for digit in got[:-1]} <= {LOW_DIGIT_SCALE**2}


@pytest.mark.parametrize("scale", SCALES)
def test_every_value_of_a_digit_has_its_probability(scale: float):
    """Also those beyond its table, together: with them drawn exactly, no value is missed."""
    beyond = Decimal(0)
    for digit in digits(scale):
        exact, law = ideal(digit.variance), pmf(digit)
        mass = law.pop(digit.largest + 1)
        for x, p in law.items():
            assert abs(p / exact[x] - 1) < FACTOR / 10
        rest = sum(p for x, p in exact.items() if abs(x) > digit.largest)
        assert abs(mass / rest - 1) < FACTOR / 2
        beyond += mass
    assert beyond < CUT


@pytest.mark.parametrize("scale", NARROW)
def test_a_narrow_law_is_near_in_total_variation(scale: float):
    (digit,) = digits(scale)
    law, exact = completed(digit), ideal(digit.variance)
    assert sum(abs(law.get(x, Decimal(0)) - p) for x, p in exact.items()) / 2 < Decimal(2) ** -120


@pytest.mark.parametrize("scale", NARROW + SCALES)
def test_high_words_increase_strictly(scale: float):
    for digit in digits(scale):
        assert (np.diff(digit.high) > 0).all()
        assert digit.high.min() >= 0
        assert ((digit.low >= 0) & (digit.low <= 2**WORD_BITS - 1)).all()


def test_grids_of_lower_digits_are_smooth():
    """The condition under which a sum of digits is a discrete Gaussian, at its worst."""
    worst = math.inf
    for scale in np.geomspace(_just_above(256.0), 2.0**50, 60):
        below = 0.0
        for digit in digits(float(scale)):
            own = float(digit.variance)
            if below:
                worst = min(worst, _smoothing(below, digit.weight, own))
            below += own * digit.weight**2
    assert 1.73 <= worst < 1.75
    assert 3 * math.exp(-2 * math.pi**2 * worst**2) < 2.0**-83


def _just_above(x: float) -> float:
    return math.nextafter(x, math.inf)


def _smoothing(below: float, weight: int, own: float) -> float:
    return math.sqrt(below * own / (below + weight**2 * own))


@pytest.mark.parametrize("scale", [256.001, 257.0, 700.0])
def test_a_sum_of_two_digits_has_exactly_the_probabilities_of_one(scale: float):
    """To 30 standard deviations, where probabilities are 2^-650."""
    low, high = (completed(digit) for digit in digits(scale))
    exact = ideal(Fraction(scale) ** 2)
    near = [0, 1, 2, 31, 32, 33, 64, 100]
    for k in [*near, *(int(spread * scale) + 7 for spread in (1, 2, 4, 8, 9, 12, 20, 30))]:
        got = sum(p * low.get(k - BASE * x, Decimal(0)) for x, p in high.items())
        assert abs(got / exact[k] - 1) < FACTOR


def test_lookup_is_the_inverse_of_the_cumulative_probabilities():
    (digit,) = digits(2.0)
    top = 2**WORD_BITS - 1
    look_up = lambda u, v: digit.look_up(np.array([u]), lambda: np.array([v]))[0]  # noqa: E731
    for i, (h, low) in enumerate(zip(digit.high.tolist(), digit.low.tolist(), strict=True)):
        below = [(h, low - 1)] if low else [(h - 1, top)]
        for u, v in below:
            assert look_up(u, v) == i - digit.largest
        assert look_up(h, low) == i - digit.largest + 1
    assert look_up(0, 0) == -digit.largest
    assert look_up(top, top) == digit.largest + 1


@pytest.mark.parametrize("scale", SCALES)
def test_upper_bits_settle_what_a_search_finds(scale: float):
    """Of words at both ends of every run of equal upper bits; no entry has those that settle."""
    ends = np.arange(1 << UPPER_BITS, dtype=np.int64) << LOWER_BITS
    for digit in digits(scale):
        settled = digit.by_upper_bits != UNSETTLED
        for words in (ends, ends + (1 << LOWER_BITS) - 1):
            found = np.searchsorted(digit.high, words) - digit.largest
            np.testing.assert_array_equal(digit.by_upper_bits[settled], found[settled])
        assert not settled[digit.high >> LOWER_BITS].any()


@pytest.mark.parametrize("scale", [3.0, 400.0, 1e9])
def test_draws_have_the_distribution_and_a_wrong_scale_is_found(scale: float):
    """50,000 draws: each test fails by chance with probability 1e-9."""
    x = draw(scale, 50_000, seed=1)
    assert bins_statistic(x, scale) < BINS_LIMIT < bins_statistic(x, 1.05 * scale)
    assert abs(np.mean(x)) < 6.2 * scale / math.sqrt(x.size)


@pytest.mark.parametrize("scale", [0.0, 1e-9, 0.12, -1.0, math.nan, math.inf, 2.0**60])
def test_a_scale_without_a_table_is_refused(scale: float):
    with refused("scale", "range", scale):
        digits(scale)


def test_that_any_of_many_draws_fails_is_as_probable_as_of_each_in_turn():
    assert failure_bound(1) == MAX_DIGITS * CUT
    assert failure_bound(1000) == 1000 * failure_bound(1)
