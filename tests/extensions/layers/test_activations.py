"""Activations are continuous to the last bit, near what they stand for, and bounded.

The layers around them compute what integers do, rounded once.
"""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extensions.layers.activations import (
    OUTPUT_SLACK,
    PiecewiseLinear,
    activate,
    activation_gradient,
    hard_sigmoid,
    relu,
    sigmoid,
)
from extensions.layers.linear_layers import backpropagate, linear
from extensions.ring.clear import ClearRing
from extensions.ring.fixed_point import encode
from tests.helpers.refused import refused
from tests.helpers.strategies import PRESETS, PROPERTY, ROUNDINGS

SLOPED = PiecewiseLinear(
    name="sloped",
    thresholds=(-1.0, 0.5, 0.75),
    slopes=(-3, 1, -1, 5),
    offset=0.25,
    slope_bits=2,
    bound=math.inf,
)
FUNCTIONS = [sigmoid(), sigmoid(10), hard_sigmoid(), relu(), relu(0.3), relu(64.0), SLOPED]
IDS = ["sigmoid", "sigmoid10", "hard sigmoid", "relu8", "relu0.3", "relu64", "sloped"]


def exact(
    function: PiecewiseLinear, x: np.ndarray, frac_bits: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns value and slope at ring integers x, with slope_bits more bits and none rounded."""
    thresholds, intercepts = function.integers(frac_bits)
    piece = np.searchsorted(thresholds, x, side="right")
    slope = np.array(function.slopes)[piece]
    return slope * x + np.array(intercepts)[piece], slope


def around(function: PiecewiseLinear, frac_bits: int) -> np.ndarray:
    """Returns a fine grid, every threshold with its neighbours, and values far out."""
    thresholds, _ = function.integers(frac_bits)
    near = [t + step for t in thresholds for step in (-2, -1, 0, 1, 2)]
    far = [sign << bits for bits in range(frac_bits, 62 - 15) for sign in (1, -1)]
    grid = np.rint(np.linspace(-9.0, 9.0, 20_011) * 2**frac_bits).astype(np.int64)
    return np.concatenate([grid, near, far])


@pytest.mark.parametrize("frac_bits", [8, *PRESETS, 24])
@pytest.mark.parametrize("function", FUNCTIONS, ids=IDS)
def test_pieces_meet_exactly_at_the_thresholds(function, frac_bits):
    thresholds, intercepts = function.integers(frac_bits)
    for i, t in enumerate(thresholds):
        left = function.slopes[i] * t + intercepts[i]
        assert left == function.slopes[i + 1] * t + intercepts[i + 1]
    first = math.ldexp(function.slopes[0] * thresholds[0] + intercepts[0], -frac_bits)
    assert first == pytest.approx(
        math.ldexp(function.offset, function.slope_bits), abs=2.0**-frac_bits
    )


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("frac_bits", PRESETS)
@pytest.mark.parametrize("function", FUNCTIONS, ids=IDS)
def test_values_are_right_within_one_ulp_and_slopes_exactly(function, frac_bits, rounding):
    x = around(function, frac_bits)
    y, slope = activate(ClearRing(frac_bits, rounding=rounding, seed=1), x, function)
    value, derivative = exact(function, x, frac_bits)
    distance = (y << function.slope_bits) - value
    assert (np.abs(distance) < 1 << function.slope_bits).all()
    np.testing.assert_array_equal(slope, derivative)
    assert np.abs(y).max() <= function.bound * OUTPUT_SLACK * 2**frac_bits


@pytest.mark.parametrize("frac_bits", PRESETS)
def test_sigmoid_error(frac_bits):
    x = np.rint(np.linspace(-12.0, 12.0, 1_000_003) * 2**frac_bits).astype(np.int64)
    value, _ = exact(sigmoid(), x, frac_bits)
    reals = x / 2**frac_bits
    error = np.abs(value / 2.0 ** (frac_bits + 14) - 1 / (1 + np.exp(-reals)))
    assert 0.0105 < error.max() <= 0.0107
    last = sigmoid().thresholds[-1]
    assert np.abs(value[reals >= last] / 2.0 ** (frac_bits + 14) - 1).max() <= 2.0**-13
    assert np.abs(value[reals < -last] / 2.0 ** (frac_bits + 14)).max() <= 2.0**-13
    assert (np.diff(value) >= 0).all()


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("frac_bits", PRESETS)
def test_the_hard_sigmoid_is_0_and_1_outside_and_near_the_sigmoid_between(frac_bits, rounding):
    x = np.concatenate([around(hard_sigmoid(), frac_bits), [-(1 << 59), 1 << 59]])
    ring = ClearRing(frac_bits, rounding=rounding, seed=1)
    value = activate(ring, x, hard_sigmoid())[0] / 2**frac_bits
    reals = x / 2**frac_bits
    assert not value[reals <= -2].any()
    assert (value[reals >= 2] == 1).all()
    error = np.abs(value - (1 + np.tanh(reals / 2)) / 2)
    assert 0.119 < error.max() <= 1 - 1 / (1 + np.exp(-2)) + 2.0**-frac_bits
    assert error[np.abs(reals) <= 0.5].max() <= 0.0026


def test_sigmoid_is_symmetric():
    x = np.arange(-(6 << 16), (6 << 16) + 1, 7)
    value, _ = exact(sigmoid(), x, 16)
    assert np.abs(value + exact(sigmoid(), -x, 16)[0] - (1 << 30)).max() <= 1


@pytest.mark.parametrize("max_value", [0.3, 8.0, 64.0])
def test_relu_is_exact_and_capped(max_value):
    x = around(relu(max_value), 16)
    y, slope = activate(ClearRing(16, rounding="ceiling"), x, relu(max_value))
    cap = round(max_value * 2**16)
    np.testing.assert_array_equal(y, np.clip(x, 0, cap))
    np.testing.assert_array_equal(slope, (x >= 0) & (x < cap))


@pytest.mark.parametrize("max_value", [0.0, -1.0, 64.1, math.nan, math.inf])
def test_relu_without_a_usable_cap_is_refused(max_value):
    with refused("max_value", "range", value=max_value):
        relu(max_value)


@pytest.mark.parametrize(
    ("argument", "code", "thresholds", "slopes"),
    [
        ("thresholds", "value", (), (1,)),
        ("thresholds", "value", (1.0, 0.0), (0, 1, 0)),
        ("thresholds", "value", (1.0, 1.0), (0, 1, 0)),
        ("slopes", "shape", (0.0, 1.0), (0, 1)),
        ("slopes", "shape", (0.0,), (0, 1, 0)),
    ],
)
def test_functions_that_are_none_are_refused(argument, code, thresholds, slopes):
    with refused(argument, code, {"thresholds": thresholds, "slopes": slopes}[argument]):
        PiecewiseLinear(
            name="f", thresholds=thresholds, slopes=slopes, offset=0.0, slope_bits=0, bound=1.0
        )


@PROPERTY
@given(st.integers(-(2**40), 2**40), st.integers(0, 2**14), st.sampled_from(ROUNDINGS))
def test_gradients_pass_through_the_slope(gradient, slope, rounding):
    ring = ClearRing(16, rounding=rounding, seed=1)
    g, s = np.array([gradient]), np.array([slope])
    smooth = activation_gradient(ring, g, s, sigmoid())
    assert abs((int(smooth[0]) << 14) - gradient * slope) < 1 << 14
    for bit in (0, 1):
        assert activation_gradient(ring, g, np.array([bit]), relu())[0] == gradient * bit


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("has_bias", [True, False])
def test_layers_are_rounded_once(has_bias, rounding):
    generator = np.random.default_rng(1)
    f, ring = 16, ClearRing(16, rounding=rounding, seed=2)
    inputs, weight = (encode(generator.normal(size=shape), f) for shape in ((7, 5), (3, 5)))
    bias = encode(generator.normal(size=3), f) if has_bias else None
    deltas = encode(generator.normal(size=(7, 3)), f)
    forward = inputs @ weight.T + (bias * 2**f if bias is not None else 0)
    output = linear(ring, inputs, weight, bias)
    assert (np.abs(output * 2**f - forward) < 2**f).all()
    assert (np.abs(backpropagate(ring, deltas, weight) * 2**f - deltas @ weight) < 2**f).all()
