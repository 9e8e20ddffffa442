"""Fixed point in Z_2^32 and Z_2^64: sums are right to the proven bound, and never overflow."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fl
from extensions.errors import ArgumentError, UpdateError
from fl.protocols import RingVector, aggregate
from tests.helpers.refused import refused
from tests.helpers.strategies import PROPERTY


def total(point: fl.FixedPoint, rows: np.ndarray, weights: list[int]) -> RingVector:
    encoded = [point.encode(row, weight) for row, weight in zip(rows, weights, strict=True)]
    return np.sum(encoded, axis=0, dtype=point.dtype)


@PROPERTY
@given(
    st.sampled_from([(32, 12), (64, 24)]),
    st.lists(st.integers(1, 600), min_size=1, max_size=10),
    st.integers(0, 2**32),
)
def test_weighted_mean_is_right_to_the_proven_bound(ring, weights, seed):
    bits, frac_bits = ring
    point = fl.FixedPoint(bits=bits, frac_bits=frac_bits, clip=8.0)
    point.check_weights(weights)
    rows = np.random.default_rng(seed).uniform(-8, 8, size=(len(weights), 7))
    mean = point.decode(total(point, rows, weights), sum(weights))
    exact = np.average(rows, axis=0, weights=weights)
    bound = len(weights) / (2 * sum(weights)) * 2.0**-frac_bits
    assert np.max(np.abs(mean - exact)) <= bound + 1e-14


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_extremes_of_the_largest_allowed_round_do_not_wrap(bits, sign):
    frac_bits = bits - 1 - 1 - 10
    point = fl.FixedPoint(bits=bits, frac_bits=frac_bits, clip=1.0)
    weights = [1023] * 2
    point.check_weights(weights)
    mean = point.decode(total(point, np.full((2, 3), sign), weights), sum(weights))
    np.testing.assert_array_equal(mean, sign)


@pytest.mark.parametrize("bits", [32, 64])
def test_round_that_could_overflow_is_refused(bits):
    point = fl.FixedPoint(bits=bits, frac_bits=bits - 2 - 10, clip=1.0)
    with refused("frac_bits", "range", value=bits - 12):
        point.check_weights([1024] * 2)


@pytest.mark.parametrize("value", [1.5, -1.5])
def test_saturation_is_an_error_unless_clipping_is_asked_for(value):
    update = np.array([0.5, value])
    with pytest.raises(UpdateError, match=r"^values lie beyond \+-1"):
        fl.FixedPoint(clip=1.0).encode(update)
    clipping = fl.FixedPoint(clip=1.0, saturation="clip")
    np.testing.assert_array_equal(clipping.decode(clipping.encode(update)), [0.5, np.sign(value)])


def test_values_at_the_bound_are_in_range():
    point = fl.FixedPoint(bits=32, frac_bits=16, clip=1.0)
    update = np.array([1.0, -1.0, 2.0**-16, -(2.0**-16), 0.0])
    np.testing.assert_array_equal(point.decode(point.encode(update)), update)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_no_number_is_refused_even_where_values_are_clipped(value):
    with pytest.raises(UpdateError, match="NaN or infinite"):
        fl.FixedPoint(saturation="clip").encode(np.array([value]))


@pytest.mark.parametrize(
    "settings",
    [
        {"bits": 16},
        {"frac_bits": 64},
        {"clip": 0.0},
        {"saturation": "wrap"},
        {"bits": 32, "frac_bits": 31, "clip": 1.0},
        {"bits": 64.0},
        {"frac_bits": 24.0},
    ],
)
def test_settings_out_of_range_are_refused(settings):
    with pytest.raises(ArgumentError):
        fl.FixedPoint(**settings)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.int8])
def test_updates_of_other_types_have_the_mean_of_their_values(kind):
    """Half precision ends at 65,504 units, single precision rounds a product with the weight."""
    updates = {k: np.linspace(-3 - k, 3 + k, 50).astype(kind) for k in range(3)}
    weights = {0: 999, 1: 1001, 2: 1003}
    found = aggregate(fl.MaskedAggregator(), updates, weights).aggregate.mean
    expected = sum(weights[k] * updates[k].astype(float) for k in updates) / sum(weights.values())
    np.testing.assert_allclose(found, expected, rtol=0, atol=2.0**-25)


def test_sum_of_the_other_ring_is_refused():
    with refused("total", "type", np.dtype("uint32")):
        fl.FixedPoint(bits=64).decode(np.zeros(2, dtype=np.uint32))
