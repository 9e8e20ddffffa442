"""A step of DPSGD on every host is that of the clear ring, and that of floating point.

With the same noise, and within bounds that are derived; and so are a model's gradients.
"""

from typing import Any

import numpy as np
import pytest

from extensions.layers.activations import relu, sigmoid
from extensions.layers.linear_layers import LayerGradient
from extensions.layers.spec import ModelSpec
from extensions.protocols.dpsgd_plan import StepPlan
from extensions.ring.clear import ClearRing
from extensions.ring.fixed_point import Integers, Reals, decode, encode
from tests.conformance.arenas import step_bounds as bounds
from tests.conformance.arenas.arena import Arena
from tests.conformance.arenas.recipes import RECIPES
from tests.helpers.strategies import (
    MODELS,
    PRESETS,
    ROWS,
    gradients,
    materialised,
    plan_of,
    random_batch,
)

SEED = 41
presets = pytest.mark.parametrize("frac_bits", PRESETS)
models = pytest.mark.parametrize("shapes", MODELS.values(), ids=MODELS)
paddings = pytest.mark.parametrize("padded", [False, True], ids=["full", "padded"])


def plan_for(arena: Arena, shapes: Any, frac_bits: int, **options: Any) -> StepPlan:
    options = {"noise_multiplier": 1.1, "parties": arena.parties, **options}
    return plan_of(shapes, frac_bits=frac_bits, **options)


def batch_of(plan: StepPlan, padded: bool) -> tuple[list[LayerGradient], Integers | None]:
    """Returns gradients, every third row of them padding that must count for nothing."""
    padding = (np.arange(ROWS) % 3 == 1).astype(np.int64) if padded else None
    return gradients(random_batch(plan), plan), padding


def flat(layers: list[LayerGradient], padding: Integers | None) -> list[Integers]:
    given = [x for layer in layers for x in (layer.inputs, layer.deltas)]
    return given + ([] if padding is None else [padding])


def step(arena: Arena, given: list[Integers], plan: StepPlan, **options: Any) -> list[Integers]:
    f = plan.frac_bits
    return arena.evaluate("dpsgd_step", given, frac_bits=f, plan=plan, seed=SEED, **options)


def assert_near(got: list[Integers], want: list[Reals], limits: list[Reals], f: int) -> None:
    for own, reference, limit in zip(got, want, limits, strict=True):
        assert (np.abs(decode(own, f) - reference) <= limit).all()


@pytest.mark.hosts(frac_bits=[16], shapes=[MODELS["no bias"]])
@paddings
@presets
@models
def test_step_is_that_of_the_clear_ring(arena: Arena, shapes: Any, frac_bits: int, padded: bool):
    plan = plan_for(arena, shapes, frac_bits)
    layers, padding = batch_of(plan, padded)
    clear = ClearRing(frac_bits, parties=arena.parties, rounding="floor")
    given = flat(layers, padding)
    want = RECIPES["dpsgd_step"](clear, *given, plan=plan, seed=SEED)
    ranges = bounds.ratio_range(layers, plan, padding)
    limits = bounds.update_bounds(layers, plan, bounds.spread_between_hosts(ranges, plan), ranges)
    assert_near(step(arena, given, plan), [decode(w, frac_bits) for w in want], limits, frac_bits)
    assert max(limit.max() for limit in limits) <= 5 * 2.0**-frac_bits


@pytest.mark.hosts(frac_bits=[20], shapes=[MODELS["hidden"]], degree=[2], padded=[True])
@paddings
@presets
@models
@pytest.mark.parametrize("degree", [2, 4])
def test_step_is_that_of_a_floating_point_dpsgd(
    arena: Arena, shapes: Any, frac_bits: int, padded: bool, degree: int
):
    plan = plan_for(arena, shapes, frac_bits, degree=degree)
    layers, padding = batch_of(plan, padded)
    factor = np.minimum(1.0, plan.max_grad_norm / bounds.gradient_norms(layers, plan))
    factor = factor * (1 if padding is None else 1 - padding)
    sums = materialised(layers, frac_bits, factor)
    noise = bounds.replayed_noise([s.shape for s in sums], plan, SEED)
    rate = plan.learning_rate / plan.expected_batch_size
    bits = frac_bits + plan.factor_bits
    want = [rate * (s + decode(n, bits)) for s, n in zip(sums, noise, strict=True)]
    ranges = bounds.ratio_range(layers, plan, padding)
    spread = bounds.spread_below_truth(ranges, factor, plan)
    limits = [
        limit + (2.0**-10 + 1e-12) * np.abs(w)  # the step ratio has 10 bits
        for limit, w in zip(bounds.update_bounds(layers, plan, spread, ranges), want, strict=True)
    ]
    assert_near(step(arena, flat(layers, padding), plan), want, limits, frac_bits)
    largest = max(np.abs(w).max() for w in want)
    assert max(limit.max() for limit in limits) < 0.015 * largest


@pytest.mark.hosts(frac_bits=[20], shapes=[MODELS["linear"]])
@presets
@models
def test_norms_that_owners_supply_give_the_same_step(arena: Arena, shapes: Any, frac_bits: int):
    plan = plan_for(arena, shapes, frac_bits)
    layers, _ = batch_of(plan, False)
    owned = layers[0].inputs
    given = [*flat(layers, None), (owned * owned).sum(axis=1)]
    clear = ClearRing(frac_bits, parties=arena.parties, rounding="floor")
    want = RECIPES["dpsgd_step"](clear, *flat(layers, None), plan=plan, seed=SEED)
    ranges = bounds.ratio_range(layers, plan, None)
    limits = bounds.update_bounds(layers, plan, bounds.spread_between_hosts(ranges, plan), ranges)
    got = step(arena, given, plan, supplied=True)
    assert_near(got, [decode(w, frac_bits) for w in want], limits, frac_bits)


@pytest.mark.hosts(frac_bits=[16], shapes=[MODELS["hidden"]])
@presets
@models
def test_noise_alone_is_the_sum_of_one_draw_a_party(arena: Arena, shapes: Any, frac_bits: int):
    # A step ratio of 16 makes the part of eta in the noise's scale visible.
    plan = plan_for(arena, shapes, frac_bits, learning_rate=384.0)
    layers, _ = batch_of(plan, False)
    given = [x for layer in layers for x in (layer.inputs, np.zeros_like(layer.deltas))]
    got = step(arena, given, plan)
    assert plan.step_ratio[0] == 16 << plan.step_ratio[1]
    bits = plan.factor_bits - 4
    for own, noise in zip(
        got, bounds.replayed_noise([g.shape for g in got], plan, SEED), strict=True
    ):
        assert np.isin(own - (noise >> bits), (0, 1)).all()
        assert own.any()


@pytest.mark.hosts(frac_bits=[20])
@presets
def test_gradients_of_a_model_of_two_layers(arena: Arena, frac_bits: int):
    # Every truncation moves its result by less than an ulp; the largest slope of the sigmoid
    # carries an error on, and a hidden unit's slope is exact if no rounding moves it past a
    # threshold.
    f, ulp = frac_bits, 2.0**-frac_bits
    generator = np.random.default_rng(3)
    spec = ModelSpec(widths=(6, 5, 3))
    pairs = [(w, generator.normal(0, 0.3, b.shape)) for w, b in spec.initial_parameters()]
    parameters = [encode(p, f) for pair in pairs for p in pair]
    x, targets = encode(generator.normal(0, 2, (40, 6)), f), encode(np.eye(3)[np.arange(40) % 3], f)
    w1, b1, w2, b2 = (decode(p, f) for p in parameters)

    before = decode(x, f) @ w1.T + b1
    thresholds = np.array(relu().integers(f)[0]) * ulp
    assert np.abs(before[..., None] - thresholds).min() > ulp, "choose another seed"
    hidden = np.clip(before, *thresholds)
    logits = hidden @ w2.T + b2
    logits_error = np.abs(w2).sum(axis=1) * ulp + ulp
    delta2 = _piecewise_sigmoid(logits, f) - decode(targets, f)
    delta2_error = max(sigmoid().slopes) * 2.0**-14 * logits_error + ulp
    slope = (before >= thresholds[0]) & (before < thresholds[1])
    delta1 = (delta2 @ w2) * slope
    delta1_error = (delta2_error @ np.abs(w2) + ulp) * slope

    got = arena.evaluate("model_gradients", [x, targets, *parameters], frac_bits=f)
    want = [logits, decode(x, f), delta1, hidden, delta2]
    slack = [e + 1e-12 for e in (logits_error, 0.0, delta1_error, ulp, delta2_error)]
    limits = [np.broadcast_to(e, w.shape) for e, w in zip(slack, want, strict=True)]
    assert_near(got, want, limits, f)
    assert 0.1 < slope.mean() < 0.9


def _piecewise_sigmoid(x: Reals, f: int) -> Reals:
    """Returns our sigmoid of real numbers, with nothing rounded but its public constants."""
    thresholds, intercepts = sigmoid().integers(f)
    piece = np.searchsorted(np.array(thresholds) * 2.0**-f, x, side="right")
    slopes = np.array(sigmoid().slopes)[piece]
    return (slopes * x + np.array(intercepts)[piece] * 2.0**-f) * 2.0 ** -sigmoid().slope_bits
