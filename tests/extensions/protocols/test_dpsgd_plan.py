"""A step's plan promises what follows from its arguments, and refuses what it cannot promise.

Every refusal names the argument.
"""

import math
import re
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extensions.errors import ArgumentError
from extensions.layers.linear_layers import LayerGradient, LayerShape
from extensions.privacy.randomness import SystemSource
from extensions.protocols.dpsgd import clipped_sums, dpsgd_step
from extensions.protocols.dpsgd_plan import StepPlan
from extensions.protocols.noise import WIDENING
from extensions.ring.clear import ClearRing
from extensions.ring.fixed_point import decode
from tests.helpers.refused import refused
from tests.helpers.strategies import (
    MODELS,
    PRESETS,
    PROPERTY,
    Example,
    chain_of_shapes,
    examples,
    flat,
    gradients,
    plan_of,
    random_batch,
    shape,
)

HIDDEN = MODELS["hidden"]


def test_a_dealer_adds_noise_beside_the_parties():
    assert plan_of(noise_multiplier=1.0, dealer_noise=True).contributors == 4
    assert plan_of(noise_multiplier=1.0).contributors == 3


def test_norms_of_rounded_gradients_are_compared_with_less():
    rounded = LayerShape(
        in_features=4, out_features=3, has_bias=True, input_norm=3.0, delta_norm=9.0, positions=9
    )
    assert plan_of((rounded,)).norm_bound == 1 - 2.0**-7
    assert plan_of(HIDDEN).norm_bound == 1


@pytest.mark.parametrize("order", [1, -1])
def test_the_update_leaves_room_for_the_smallest_bias(order):
    plain = HIDDEN[0], HIDDEN[1]
    small = HIDDEN[0], replace(HIDDEN[1], bias_bits=8)
    rates = [2.0**-k for k in range(60)]
    least = min(rate for rate in rates if accepted(plain, rate))
    assert not accepted(small[::order], least)
    assert accepted(small[::order], least * 2.0**8)


def accepted(layers, rate):
    with suppress(ArgumentError):
        return plan_of(layers, learning_rate=rate)


@PROPERTY
@given(st.floats(1e-4, 10.0), st.floats(1.0, 4096.0))
def test_step_ratio_is_within_a_thousandth(learning_rate, batch):
    numerator, bits = plan_of(learning_rate=learning_rate, expected_batch_size=batch).step_ratio
    assert 512 <= numerator <= 1024
    assert abs(numerator / 2.0**bits * batch / learning_rate - 1) <= 2.0**-10


@pytest.mark.parametrize("frac_bits", PRESETS)
def test_eta_is_the_rounding_of_the_clipped_deltas(frac_bits):
    plan = plan_of(HIDDEN, frac_bits=frac_bits, max_grad_norm=0.5)
    squares = 7 * (2.0**2 + 1) + 3 * (4.0**2 + 1)
    assert plan.eta == pytest.approx(math.sqrt(squares) * 2.0**-plan.factor_bits / 0.5)
    assert plan.eta < 1e-3


@pytest.mark.parametrize(("bound", "noise"), [(100, 3), (0.3, 1.1)])
@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.float16, np.float32])
def test_noise_is_as_wide_whatever_type_its_numbers_have(kind, bound, noise):
    narrow = {"max_grad_norm": kind(bound) or kind(1), "noise_multiplier": kind(noise)}
    plan, same = (
        plan_of(**own) for own in (narrow, {name: float(value) for name, value in narrow.items()})
    )
    assert plan == same
    assert plan.sigma == same.sigma
    assert plan.noise_scale(1.0) == same.noise_scale(1.0)


@pytest.mark.parametrize("frac_bits", PRESETS)
def test_one_step_moves_no_further_than_stated(frac_bits):
    plan = plan_of(HIDDEN, frac_bits=frac_bits, noise_multiplier=1.0, learning_rate=3.0)
    same = [random_batch(plan)[-1]] * plan.rows
    ring = ClearRing(frac_bits)
    still = plan_of(HIDDEN, frac_bits=frac_bits, learning_rate=3.0)
    parameters = 5 * 7 + 7 + 7 * 3 + 3
    ulps = math.sqrt(parameters) * 2.0**-frac_bits

    def moved(batch: list[Example], of: StepPlan) -> float:
        step = flat(dpsgd_step(ring, gradients(batch, of), of, SystemSource()))
        return float(np.linalg.norm(np.concatenate([decode(x, frac_bits).ravel() for x in step])))

    quantised = 1 + 2.0**-10
    pull = moved(same, still)
    assert 0.9 * plan.largest_pull < pull <= quantised * plan.largest_pull + ulps
    nothing = [[(0 * a, 0 * d) for a, d in example] for example in same]
    assert moved(nothing, plan) <= quantised * plan.largest_noise + ulps
    assert plan.largest_noise == pytest.approx(
        3.0 / 24 * math.sqrt(1.5) * WIDENING * (1 + plan.eta) * (math.sqrt(parameters) + 10)
    )


def test_a_chain_multiplies_weights_from_the_output_back():
    chain = chain_of_shapes(
        [(784, 64, True, 1.0), (64, 32, False, 8.0), (32, 10, True, 4.0)],
        delta_norm=1.5,
        weight_norm=20.0,
    )
    assert chain == (
        shape(784, 64, 1.0, 600.0),
        shape(64, 32, 8.0, 30.0, has_bias=False),
        shape(32, 10, 4.0, 1.5),
    )


LARGE = {"layers": (shape(4, 3, 2.0**14, 2.0**14),)}
REFUSED = [
    ("frac_bits", "range", 7, {}),
    ("frac_bits", "range", 25, {}),
    ("frac_bits", "value", 24, {"rows": 4096}),
    ("frac_bits", "value", 16, {"noise_multiplier": 1e5, "rows": 1 << 23}),
    ("frac_bits", "value", 16, {"max_grad_norm": 2.0**-16}),
    *[("learning_rate", "range", bad, {}) for bad in (0.0, -1.0, math.nan, math.inf)],
    *[("learning_rate", "value", bad, {}) for bad in (1e-12, 1e12)],
    *[("expected_batch_size", "range", bad, {}) for bad in (0.0, -1.0, math.nan)],
    *[("max_grad_norm", "range", bad, {}) for bad in (0.0, -1.0, math.nan, math.inf)],
    *[("max_grad_norm", "range", bad, {}) for bad in (2.0**-17, 2.0**17)],
    *[("noise_multiplier", "range", bad, {}) for bad in (-0.1, math.nan, math.inf)],
    *[("noise_multiplier", "value", bad, {}) for bad in (1e-10, 5e-324, 1e9, 1e300)],
    ("degree", "choice", 5, {}),
    ("rows", "range", 0, {}),
    ("parties", "range", 0, {}),
    ("colluders", "value", 3, {}),
    ("colluders", "range", -1, {}),
    ("layers", "value", (), {}),
    ("layers", "value", [(2.0**15, 1.0)], {"layers": (shape(4, 3, 2.0**15, 1.0),)}),
    ("layers", "value", [(1.0, 2.0**15)], {"layers": (shape(4, 3, 1.0, 2.0**15),)}),
    ("layers", "value", [(2.0**14, 2.0**14)], {**LARGE, "max_grad_norm": 256.0}),
    ("max_grad_norm", "value", 1.0, LARGE),
    ("layers", "value", [(2048.0, 1.0)], {"frac_bits": 20, "layers": (shape(4, 3, 2048.0, 1.0),)}),
]


@pytest.mark.parametrize(
    ("argument", "code", "value", "options"),
    REFUSED,
    ids=[f"{name}-{i}" for i, (name, *_) in enumerate(REFUSED)],
)
def test_a_plan_that_cannot_keep_its_promise_is_refused(argument, code, value, options):
    with refused(argument, code, value):
        plan_of(**{argument: value, **options})


@pytest.mark.parametrize("name", ["input_norm", "delta_norm"])
@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, 2.0**20 + 1])
def test_norm_bounds_of_a_layer_are_checked(name, bad):
    norms = {"input_norm": 1.0, "delta_norm": 1.0, name: bad}
    with refused(name, "range", bad):
        LayerShape(in_features=2, out_features=2, has_bias=True, **norms)


@pytest.mark.parametrize("frac_bits", PRESETS)
def test_learning_rates_are_accepted_over_the_range_that_the_error_states(frac_bits):
    with refused("learning_rate", "value", value=1e-30) as caught:
        plan_of(frac_bits=frac_bits, learning_rate=1e-30)
    low, high = (int(power) for power in re.findall(r"2\^(-?\d+)", str(caught.value)))
    for exponent in (low, high):
        plan_of(frac_bits=frac_bits, learning_rate=24.0 * 2.0**exponent)
    for exponent in (low - 1.01, high + 2.01):
        with refused("learning_rate", "value"):
            plan_of(frac_bits=frac_bits, learning_rate=24.0 * 2.0**exponent)


@pytest.mark.parametrize(
    ("frac_bits", "max_norm"),
    [(12, 0.25), (16, 0.05), (16, 2.0**16), (20, 0.01), (20, 2.0**12), (24, 1.0)],
)
def test_accepted_plans_can_be_carried_out(frac_bits, max_norm):
    plan = plan_of(HIDDEN, frac_bits=frac_bits, max_grad_norm=max_norm, rows=2)
    batch = list(examples(HIDDEN, max_norm))[-2:]
    dpsgd_step(ClearRing(frac_bits), gradients(batch, plan), plan, SystemSource())


def test_a_step_refuses_a_plan_made_for_something_else():
    plan = plan_of(HIDDEN)
    layers = gradients(random_batch(plan), plan)
    for ring in (ClearRing(20), ClearRing(16, parties=2)):
        with refused("plan", "value"):
            clipped_sums(ring, layers, plan, None)
    without_bias = [LayerGradient(inputs=x.inputs, deltas=x.deltas, has_bias=False) for x in layers]
    for other in (layers[:1], [*layers, layers[0]], without_bias):
        with refused("layers", "value"):
            clipped_sums(ClearRing(16), other, plan, None)
