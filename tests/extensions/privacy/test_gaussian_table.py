"""Tables of discrete Gaussians: the exact distribution of what is looked up in them."""

import math
from collections.abc import Iterator
from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy import stats

from extensions.errors import ArgumentError
from extensions.privacy.gaussian_table import BASE, CUT, LOW_DIGIT_SCALE, WORD_BITS, Digit, digits

pytestmark = pytest.mark.usefixtures("precise")

SCALES = [0.125, 0.2, 1.0, 3.7, 128.0, 256.0, 256.001, 1000.0, 2.0**14 + 1, 1e6, 2.0**30, 2.0**45]


@pytest.fixture
def precise() -> Iterator[None]:
    with localcontext() as context:
        context.prec = 80
        yield


def pmf(digit: Digit) -> dict[int, Decimal]:
    """Returns the exact probability of each value of a digit, from its table."""
    words = [(int(h) << WORD_BITS) + int(v) for h, v in zip(digit.high, digit.low, strict=True)]
    steps = np.diff(np.array([0, *words, 4**WORD_BITS], dtype=object))
    return {digit.lowest + i: Decimal(int(step)) / 4**WORD_BITS for i, step in enumerate(steps)}


def draw(scale: float, count: int, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    words = lambda: generator.integers(0, 2**WORD_BITS, count)  # noqa: E731
    return sum(digit.weight * digit.look_up(words(), words()) for digit in digits(scale))


@pytest.mark.parametrize("scale", SCALES)
def test_the_digits_have_the_variance_asked_for(scale: float):
    got = digits(scale)
    assert [digit.weight for digit in got] == [BASE**i for i in range(len(got))]
    total, cut = Decimal(0), Decimal(0)
    for digit in got:
        probabilities = pmf(digit)
        assert min(probabilities) == -max(probabilities)
        variance = sum(p * x * x for x, p in probabilities.items())
        total += digit.weight**2 * variance
        spread = float(variance) ** 0.5
        cut += Decimal(2 * stats.norm.sf(max(probabilities) / spread)) if spread > 1 else 0
    assert float(cut) < CUT
    if scale > 2:  # narrower ones have a variance below scale^2, as discrete Gaussians do
        assert math.isclose(float(total), scale**2, rel_tol=1e-12)


@pytest.mark.parametrize("scale", SCALES)
def test_high_words_increase_strictly(scale: float):
    for digit in digits(scale):
        assert (np.diff(digit.high) > 0).all()
        assert digit.high.min() >= 0
        assert ((digit.low >= 0) & (digit.low <= 2**WORD_BITS - 1)).all()


def test_grids_of_lower_digits_are_smooth():
    """The condition under which a sum of digits is a discrete Gaussian, at its worst."""
    worst = math.inf
    for scale in np.geomspace(_just_above(256.0), 2.0**50, 60):
        got = digits(float(scale))
        below, rest = 0.0, float(scale) ** 2
        for digit in got[:-1]:
            own = LOW_DIGIT_SCALE**2
            if below:
                worst = min(worst, _smoothing(below, digit.weight, own))
            below += own * digit.weight**2
        worst = min(worst, _smoothing(below, got[-1].weight, (rest - below) / got[-1].weight ** 2))
    assert 1.73 <= worst < 1.75
    assert 3 * math.exp(-2 * math.pi**2 * worst**2) < 2.0**-83


def _just_above(x: float) -> float:
    return math.nextafter(x, math.inf)


def _smoothing(below: float, weight: int, own: float) -> float:
    return math.sqrt(below * own / (below + weight**2 * own))


@pytest.mark.parametrize("scale", [257.0, 700.0])
def test_a_sum_of_two_digits_has_exactly_the_probabilities_of_one(scale: float):
    low, high = (pmf(digit) for digit in digits(scale))
    rate = -1 / (2 * Decimal(scale) ** 2)
    ideal = {k: (rate * k * k).exp() for k in range(-int(12 * scale), int(12 * scale) + 1)}
    norm = sum(ideal.values())
    for k in [0, 1, 2, 31, 32, 33, 64, 100, int(scale), int(2 * scale), int(4 * scale) + 7]:
        got = sum(p * low.get(k - BASE * x, Decimal(0)) for x, p in high.items())
        assert abs(got * norm / ideal[k] - 1) < Decimal(2) ** -50


def test_lookup_is_the_inverse_of_the_cumulative_probabilities():
    (digit,) = digits(2.0)
    top = 2**WORD_BITS - 1
    for i, (h, low) in enumerate(zip(digit.high.tolist(), digit.low.tolist(), strict=True)):
        below = [(h, low - 1)] if low else [(h - 1, top)]
        for u, v in below:
            assert digit.look_up(np.array(u), np.array(v)) == digit.lowest + i
        assert digit.look_up(np.array(h), np.array(low)) == digit.lowest + i + 1
    assert digit.look_up(np.array(0), np.array(0)) == digit.lowest
    assert digit.look_up(np.array(top), np.array(top)) == -digit.lowest


@pytest.mark.parametrize("scale", [3.0, 400.0, 1e9])
def test_draws_have_the_distribution_and_a_wrong_scale_is_found(scale: float):
    """Twenty equally likely bins, 50,000 draws: each test fails by chance with probability 1e-9.

    A scale 5 % off moves the statistic by about 50,000 * 2 * 0.05^2 = 250, far beyond 84.
    """
    count, bins = 50_000, 20
    x = draw(scale, count, seed=1)
    uniform = (np.random.default_rng(2).random(count) - 0.5) / scale  # breaks ties within a unit

    def statistic(claimed: float) -> float:
        quantiles = stats.norm.cdf(x / claimed + uniform)
        observed = np.histogram(quantiles, bins, (0.0, 1.0))[0]
        return float(((observed - count / bins) ** 2).sum() * bins / count)

    limit = stats.chi2.isf(1e-9, bins - 1)
    true = math.sqrt(scale**2 + 1 / 12)  # of the draw and the uniform part together
    assert statistic(true) < limit < statistic(1.05 * true)
    assert abs(np.mean(x)) < 6.2 * scale / math.sqrt(count)


@pytest.mark.parametrize("scale", [0.0, 1e-9, 0.12, -1.0, math.nan, math.inf, 2.0**60])
def test_a_scale_without_a_table_is_refused(scale: float):
    with pytest.raises(ArgumentError, match=r"^scale = "):
        digits(scale)
