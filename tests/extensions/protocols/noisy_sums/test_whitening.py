"""Whitening: the law of its noise, the map that follows from it, and what it asks of a host."""

import math

import numpy as np
import pytest

from extensions.privacy.accounting import calibrate_noise
from extensions.privacy.randomness import SystemSource
from extensions.protocols import pea
from extensions.protocols.host import Host
from extensions.protocols.noise import NoiseSplit
from extensions.protocols.noisy_sums import second_moment
from extensions.protocols.noisy_sums.second_moment import FRAC_BITS, pack, unit_rows
from extensions.protocols.noisy_sums.whitening import SHORTEST, Whitening, open_whitening, ridge_of
from extensions.runs.clear_host import ClearHost
from tests.helpers.owned_rows import announced
from tests.helpers.refused import refused
from tests.helpers.toy_ext.host import ToyHost

PARTIES = 3


def rows_of(records: int, columns: int, seed: int = 0) -> np.ndarray:
    """Encoded rows whose columns vary differently."""
    x = np.random.default_rng(seed).normal(size=(records, columns)) * 0.5 ** np.arange(columns)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return np.rint(x * 2.0**20).astype(np.int64)


def unit(rows: np.ndarray) -> np.ndarray:
    """They, with the fractional bits of a Gram matrix."""
    return unit_rows(rows, 2.0**20)


def opened(
    rows: list[np.ndarray],
    sigma: float,
    host: Host | None = None,
    *,
    ridge: float | None = None,
    k: int = 1,
    colluders: int = 1,
) -> list[np.ndarray]:
    host = host or ClearHost(20, parties=len(rows), owners=len(rows), source=SystemSource())
    found = open_whitening(
        host,
        pea.RunCallbacks(host),
        announced(rows, [*map(len, rows)]),
        max_feature_norm=1.0,
        noise_multiplier=sigma,
        ridge=ridge,
        rows_per_unit=k,
        split=NoiseSplit(colluders=colluders),
    )
    return [*found.parts]


@pytest.mark.parametrize(("k", "colluders"), [(1, 1), (3, 2)])
def test_noise_has_the_variances_that_are_accounted(k, colluders):
    """Sums of n squares are within 6 sqrt(2 / n) of n, but with probability below 1e-8 each.

    By the normal law it is 2e-9; chi-squared tails at 3,000 and more degrees of freedom and six
    deviations are less than four times that. n is 3,000 on the diagonal, 448,500 off it, where
    twice the variance would be off by 19 and by 237 deviations.
    """
    sigma, d = 2.0, 300
    zeros = [np.zeros((1, d), dtype=np.int64)] * PARTIES
    drawn = [opened(zeros, sigma, k=k, colluders=colluders) for _ in range(10)]
    total = {1: 1.5, 2: 3.0}[colluders] * (k * sigma * 4.0**FRAC_BITS) ** 2
    for place, variance in ((0, total), (1, total / 2)):
        values = np.concatenate([each[place] for each in drawn]).astype(np.float64)
        ratio = float((values**2).sum()) / (variance * values.size)
        assert abs(ratio - 1.0) < 6 * math.sqrt(2 / values.size)
    assert values.size == 448_500


@pytest.mark.parametrize("host", [ClearHost, ToyHost])
def test_without_noise_it_is_the_sum_over_all_owners(host):
    rows = [rows_of(n, 5, n) for n in (4, 1, 7)]
    toy = ToyHost(20, PARTIES, SystemSource()) if host is ToyHost else None
    found = opened(rows, 0.0, toy, ridge=1.0)
    expected = pack(second_moment.second_moment(unit(np.concatenate(rows))))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_rows_are_those_of_the_inverse_square_root_and_of_one_norm():
    own = unit(rows_of(200, 6))
    whitening = Whitening(parts=pack(second_moment.second_moment(own)), ridge=0.5)
    x = own / 2.0**FRAC_BITS
    values, vectors = np.linalg.eigh(x.T @ x)
    mapped = x @ vectors @ np.diag((np.abs(values) + 0.5) ** -0.5) @ vectors.T
    mapped /= np.linalg.norm(mapped, axis=1, keepdims=True)
    np.testing.assert_allclose(whitening.rows(x), mapped, rtol=0, atol=1e-9)
    np.testing.assert_allclose(whitening.rows(x, 4.0), 4.0 * mapped, rtol=0, atol=1e-9)
    np.testing.assert_allclose(whitening.rows(1e-3 * x), mapped, rtol=0, atol=1e-9)
    assert np.linalg.cond(mapped.T @ mapped) < 0.05 * np.linalg.cond(x.T @ x)


def test_each_row_is_mapped_alone_and_zeros_stay_zeros():
    own = unit(rows_of(50, 4))
    whitening = Whitening(parts=pack(second_moment.second_moment(own)), ridge=1.0)
    x = own[:3] / 2.0**FRAC_BITS
    x[1] = 0.0
    together = whitening.rows(x)
    np.testing.assert_allclose(together[2:], whitening.rows(x[2:]), rtol=0, atol=1e-15)
    assert not together[1].any()
    assert np.linalg.norm(whitening.rows(np.full((1, 4), 2.0**-20))) == pytest.approx(1.0)
    assert np.linalg.norm(whitening.rows(np.full((1, 4), 1e-3 * SHORTEST))) < 1.0
    assert whitening.rows(np.zeros((0, 4))).shape == (0, 4)


def test_negative_eigenvalues_of_noise_do_no_harm():
    parts = [np.array([-1, 4]) << 2 * FRAC_BITS, np.array([0])]
    found = Whitening(parts=parts, ridge=1.0).matrix
    np.testing.assert_allclose(found, np.diag([1.0, math.sqrt(2 / 5)]), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("epsilon", "best"), [(2.0, 120.0), (1.0, 180.0), (0.5, 300.0)])
def test_the_ridge_is_within_a_fifth_of_the_best_that_was_measured(epsilon, best):
    one = calibrate_noise(epsilon=epsilon, delta=1 / 600_000, sample_rate=1.0, steps=1)
    sigma = one / math.sqrt(0.15)
    found = ridge_of(sigma, parties=3, total=60_000, columns=1024)
    assert 0.8 * best < found < 1.2 * best
    assert found < ridge_of(sigma, parties=2, total=60_000, columns=1024)
    assert found < ridge_of(
        sigma, parties=3, total=60_000, columns=1024, split=NoiseSplit(colluders=2)
    )


def test_what_was_opened_has_a_digest():
    first = Whitening(parts=pack(second_moment.second_moment(unit(rows_of(5, 3)))), ridge=1.0)
    other = Whitening(parts=[first.parts[0], first.parts[1] + 1], ridge=1.0)
    assert first.digest == Whitening(parts=[*first.parts], ridge=1.0).digest != other.digest


def test_what_cannot_be_opened_is_refused():
    with refused("columns", "range", value=5000):
        opened([np.zeros((1, 5000), dtype=np.int64)] * 2, 1.0)
    with refused("sigma", "value", value=1e-12):
        opened([np.zeros((1, 3), dtype=np.int64)] * 2, 1e-12)
    with refused("sigma", "value", value=1000000000.0):
        opened([np.zeros((1, 3), dtype=np.int64)] * 2, 1e9)
    with refused("sigma", "range", value=0.0):
        opened([np.zeros((1, 3), dtype=np.int64)] * 2, 0.0)
