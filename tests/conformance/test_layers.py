"""Activations and linear layers on every host: a neighbour of the exact value, exact slopes."""

import numpy as np
import pytest

from extensions.layers.activations import PiecewiseLinear, hard_sigmoid, relu, sigmoid
from extensions.ring.clear import ClearRing
from extensions.ring.fixed_point import Integers, encode
from tests.conformance.arenas.arena import Arena
from tests.conformance.arenas.recipes import RECIPES
from tests.extensions.layers.test_activations import around, exact
from tests.helpers.strategies import PRESETS

presets = pytest.mark.parametrize("frac_bits", PRESETS)
functions = pytest.mark.parametrize(
    "function",
    [sigmoid(), sigmoid(10), hard_sigmoid(), relu(), relu(0.3)],
    ids=lambda f: f"{f.name}-{f.bound:g}",
)


def assert_rounds(got: Integers, exact: Integers, bits: int) -> None:
    """Every value is one of the two neighbours of exact / 2^bits, and it where that is whole."""
    up = got - (exact >> bits)
    assert np.isin(up, (0, 1)).all()
    assert not up[exact & ((1 << bits) - 1) == 0].any()


@pytest.mark.hosts(frac_bits=[16])
@functions
@presets
def test_activations_are_the_clear_rings_within_one_ulp(
    arena: Arena, frac_bits: int, function: PiecewiseLinear
):
    x = around(function, frac_bits)
    y, slope = arena.evaluate("activate", [x], frac_bits=frac_bits, function=function)
    value, derivative = exact(function, x, frac_bits)
    assert_rounds(y, value, function.slope_bits)
    np.testing.assert_array_equal(slope, derivative)
    floor = ClearRing(frac_bits, rounding="floor")
    up = y - RECIPES["activate"](floor, x, function=function)[0]
    assert np.isin(up, (0, 1)).all()
    assert function.slope_bits or not up.any()


@pytest.mark.hosts(frac_bits=[20])
@functions
@presets
def test_gradients_pass_through_the_slope(arena: Arena, frac_bits: int, function: PiecewiseLinear):
    generator = np.random.default_rng(1)
    gradient = encode(generator.normal(0, 3, 400), frac_bits)
    slope = generator.choice(np.array(function.slopes), 400)
    options = {"frac_bits": frac_bits, "function": function}
    (got,) = arena.evaluate("through", [gradient, slope], **options)
    assert_rounds(got, gradient * slope, function.slope_bits)


@pytest.mark.hosts(frac_bits=[16])
@presets
@pytest.mark.parametrize("has_bias", [True, False])
def test_layers_are_rounded_once(arena: Arena, frac_bits: int, has_bias: bool):
    generator = np.random.default_rng(2)
    inputs, weight = (encode(generator.normal(size=s), frac_bits) for s in ((33, 17), (5, 17)))
    bias = encode(generator.normal(size=5), frac_bits)
    product = inputs @ weight.T + (bias << frac_bits if has_bias else 0)
    given = [inputs, weight, *([bias] if has_bias else [])]
    (output,) = arena.evaluate("linear", given, frac_bits=frac_bits)
    assert_rounds(output, product, frac_bits)
    deltas = encode(generator.normal(size=(33, 5)), frac_bits)
    (back,) = arena.evaluate("backpropagate", [deltas, weight], frac_bits=frac_bits)
    assert_rounds(back, deltas @ weight, frac_bits)
