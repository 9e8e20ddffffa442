"""Encoding rounds to the nearest ring integer and back without loss, or names what it refuses."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extensions.ring.fixed_point import (
    MAX_FRAC_BITS,
    MIN_FRAC_BITS,
    SAFE_BITS,
    check_frac_bits,
    decode,
    encode,
    wrap,
)
from tests.helpers.refused import refused
from tests.helpers.strategies import PROPERTY

FRAC_BITS = st.integers(MIN_FRAC_BITS, MAX_FRAC_BITS)


@PROPERTY
@given(FRAC_BITS, st.lists(st.integers(-(2**53), 2**53), max_size=20))
def test_what_a_double_holds_comes_back_exactly(frac_bits, integers):
    raw = np.array(integers, dtype=np.int64)
    np.testing.assert_array_equal(encode(decode(raw, frac_bits), frac_bits), raw)


@PROPERTY
@given(FRAC_BITS, st.data())
def test_encoding_rounds_to_the_nearest(frac_bits, data):
    limit = 2.0 ** (SAFE_BITS - frac_bits)
    x = data.draw(st.floats(-limit, limit, exclude_min=True, exclude_max=True))
    raw = Fraction(int(encode([x], frac_bits)[0]), 1 << frac_bits)
    assert abs(raw - Fraction(x)) <= Fraction(1, 2 << frac_bits)


def test_ties_go_to_the_even_integer():
    halves = np.array([-1.5, -0.5, 0.5, 1.5, 2.5]) / 2**16
    np.testing.assert_array_equal(encode(halves, 16), [-2, 0, 0, 2, 2])


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3)])
def test_shapes_and_types_are_kept(shape):
    raw = encode(np.ones(shape), 20)
    assert raw.shape == shape
    assert raw.dtype == np.int64
    assert decode(raw, 20).shape == shape
    assert (decode(raw, 20) == 1.0).all()


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_non_finite_values_are_named(bad):
    with refused("features", "range", bad):
        encode([[0.0, 1.0], [bad, 2.0]], 16, name="features")


@pytest.mark.parametrize("frac_bits", [8, 16, 20, 24])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_range_ends_below_2_to_the_62(frac_bits, sign):
    limit = 2.0 ** (SAFE_BITS - frac_bits)
    largest = sign * math.nextafter(limit, 0.0)
    assert decode(encode([largest], frac_bits), frac_bits)[0] == largest
    with refused("values", "range", "a number that is too large") as caught:
        encode([1.0, sign * limit, 0.0], frac_bits)
    assert caught.value.argument == "values"
    assert str(caught.value.rule).startswith("below 2^")
    assert repr(limit) not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "wrapped"),
    [
        (0, 0),
        (2**63 - 1, 2**63 - 1),
        (2**63, -(2**63)),
        (-(2**63), -(2**63)),
        (-(2**63) - 1, 2**63 - 1),
        (2**64, 0),
        (-(2**64) - 1, -1),
        (3 * 2**63, -(2**63)),
    ],
)
def test_wrap_at_the_seams(value, wrapped):
    assert wrap(value) == wrapped


@PROPERTY
@given(st.integers(-(2**130), 2**130))
def test_wrap_is_the_representative_in_the_signed_range(value):
    assert -(2**63) <= wrap(value) < 2**63
    assert (wrap(value) - value) % 2**64 == 0


@pytest.mark.parametrize("frac_bits", range(MIN_FRAC_BITS, MAX_FRAC_BITS + 1))
def test_usable_fractional_bits_are_returned(frac_bits):
    assert check_frac_bits(frac_bits) == frac_bits


@pytest.mark.parametrize("frac_bits", [-1, 0, 7, 25, 64])
def test_other_fractional_bits_are_refused(frac_bits):
    with refused("frac_bits", "range", frac_bits):
        check_frac_bits(frac_bits)
