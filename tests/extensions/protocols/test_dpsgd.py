"""One step of DPSGD: no example moves it further than the sensitivity that the noise is scaled to.

Contributions are measured one example at a time, with adversarial gradients and the worst
rounding, in exact integers; sums are compared with a floating-point DPSGD within a derived bound.
"""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from extensions.layers.linear_layers import LayerGradient
from extensions.protocols.dpsgd import clipped_sums, squared_norm_ratios
from extensions.protocols.dpsgd_plan import StepPlan
from extensions.ring.clear import ClearRing
from extensions.ring.fixed_point import decode
from tests.helpers.claims import claim
from tests.helpers.strategies import (
    MODELS,
    PRESETS,
    ROUNDINGS,
    ROWS,
    examples,
    flat,
    gradients,
    materialised,
    plan_of,
    random_batch,
    squared_length,
)

BOUNDS = (0.1, 1.0, 7.7)
model = pytest.mark.parametrize("shapes", MODELS.values(), ids=MODELS)
presets = pytest.mark.parametrize("frac_bits", PRESETS)
roundings = pytest.mark.parametrize("rounding", ROUNDINGS)


@claim("No record moves the sum further than this sensitivity.")
@roundings
@presets
@pytest.mark.parametrize("max_norm", BOUNDS)
@model
def test_no_example_moves_the_sum_further_than_the_sensitivity(
    shapes, max_norm, frac_bits, rounding
):
    plan = plan_of(shapes, frac_bits=frac_bits, max_grad_norm=max_norm)
    ring = ClearRing(frac_bits, rounding=rounding, seed=1)
    limit = Fraction(max_norm) * (1 + Fraction(plan.eta))
    unit = Fraction(1, 1 << (frac_bits + plan.factor_bits))
    for example in examples(shapes, max_norm):
        moved = flat(clipped_sums(ring, gradients([example], plan), plan, None))
        assert squared_length(*moved) * unit**2 <= limit**2


@pytest.mark.parametrize("degree", [3, 4])
@pytest.mark.parametrize(
    ("max_norm", "frac_bits"), [(2.0**-6, 20), (2.0**16, 16), (1.0, 12), (3.0, 22)]
)
def test_nor_at_the_ends_of_what_a_plan_accepts(max_norm, frac_bits, degree):
    shapes = MODELS["linear"]
    plan = plan_of(shapes, frac_bits=frac_bits, max_grad_norm=max_norm, degree=degree, rows=4)
    limit = Fraction(max_norm) * (1 + Fraction(plan.eta)) * (1 << (frac_bits + plan.factor_bits))
    for rounding in ROUNDINGS:
        ring = ClearRing(frac_bits, rounding=rounding, seed=1)
        for example in examples(shapes, max_norm):
            moved = flat(clipped_sums(ring, gradients([example], plan), plan, None))
            assert squared_length(*moved) <= limit**2


def norms_squared(
    layers: list[LayerGradient], f: int, more: tuple[tuple[int, int], ...] = ()
) -> Any:
    """Returns ||g_j||^2 of every example, each factor raised by two units of its last bit."""
    total = 0.0
    for layer, (d_bits, a_bits) in zip(layers, more or ((1000, 1000),) * len(layers), strict=True):
        d2 = (decode(layer.deltas, f) ** 2).sum(axis=1) + 2.0 ** (1 - d_bits)
        a2 = (decode(layer.inputs, f) ** 2).sum(axis=1) + layer.has_bias + 2.0 ** (1 - a_bits)
        total = total + d2 * a2
    return total


def largest_ratio(layers: list[LayerGradient], plan: StepPlan) -> Any:
    """Returns the most that rounding can make of ||g_j||^2 / C^2."""
    total = norms_squared(layers, plan.frac_bits, tuple(plan.norm_bits))
    return (1 + 2.0**-9) * total / plan.max_grad_norm**2 + 2.0 ** (1 - plan.frac_bits)


@roundings
@presets
@pytest.mark.parametrize("max_norm", BOUNDS)
@model
def test_squared_norms_are_rounded_up_and_not_far(shapes, max_norm, frac_bits, rounding):
    plan = plan_of(shapes, frac_bits=frac_bits, max_grad_norm=max_norm)
    batch = [*examples(shapes, max_norm), *random_batch(plan)]
    layers = gradients(batch, plan)
    ring = ClearRing(frac_bits, rounding=rounding, seed=2)
    ratios, shift, _ = squared_norm_ratios(ring, layers, plan)
    truth = norms_squared(layers, frac_bits) / max_norm**2 * (1 - 1e-12)
    found = ratios / 2.0 ** (frac_bits + shift)
    assert (found >= truth).all()
    assert (found <= largest_ratio(layers, plan)).all()


@roundings
@presets
@pytest.mark.parametrize("max_norm", BOUNDS)
@model
def test_sum_is_that_of_a_floating_point_dpsgd(shapes, max_norm, frac_bits, rounding):
    # |sum - reference| <= sum_j (best_j - least_j) ||g_j|| + B eta C: the factor of each example
    # lies between best = min(1, C / ||g||) and 0.7 % and two ulp below it at the largest ratio
    # that rounding can give (exactly 1 where that is below 1), and rounding adds eta C each.
    plan = plan_of(shapes, frac_bits=frac_bits, max_grad_norm=max_norm)
    layers = gradients(random_batch(plan), plan)
    norms, ratio = np.sqrt(norms_squared(layers, frac_bits)), largest_ratio(layers, plan)
    best = np.minimum(1.0, max_norm / norms)
    least = np.where(ratio < 1.0, 1.0, 0.993 / np.sqrt(ratio) - 2.0 ** (1 - frac_bits))
    bound = ((best - least) * norms).sum() + ROWS * plan.eta * max_norm + 1e-9
    reference = np.concatenate([x.ravel() for x in materialised(layers, frac_bits, best)])
    sums = flat(clipped_sums(ClearRing(frac_bits, rounding=rounding, seed=3), layers, plan, None))
    total = np.concatenate([decode(x, frac_bits + plan.factor_bits).ravel() for x in sums])
    assert np.linalg.norm(total - reference) <= bound
    assert bound < 0.1 * np.linalg.norm(reference)


@roundings
@presets
@model
def test_small_gradients_come_through_exactly(shapes, frac_bits, rounding):
    plan = plan_of(shapes, frac_bits=frac_bits, max_grad_norm=7.7)
    small = [[(a, 0.02 * d) for a, d in example] for example in random_batch(plan)]
    layers = gradients(small, plan)
    assert norms_squared(layers, frac_bits).max() < 0.9 * 7.7**2
    extra = 1 << (plan.factor_bits - frac_bits)
    for layer, (weight, bias) in zip(
        layers,
        clipped_sums(ClearRing(frac_bits, rounding=rounding, seed=4), layers, plan, None),
        strict=True,
    ):
        np.testing.assert_array_equal(weight, layer.deltas.T @ layer.inputs * extra)
        if layer.has_bias:
            np.testing.assert_array_equal(bias, layer.deltas.sum(axis=0) * (extra << frac_bits))


@pytest.mark.parametrize("private", [True, False])
@roundings
@presets
@model
def test_padding_rows_contribute_exactly_nothing(shapes, frac_bits, rounding, private):
    plan = plan_of(shapes, frac_bits=frac_bits, private=private)
    garbage = list(examples(shapes, 1.0))
    ring = ClearRing(frac_bits, rounding=rounding, seed=5)
    alone = np.ones(len(garbage), dtype=np.int64)
    for share in flat(clipped_sums(ring, gradients(garbage, plan), plan, alone)):
        assert not share.any()
    batch = random_batch(plan, count=8)
    mixed = [example for pair in zip(batch, garbage, strict=False) for example in pair]
    floor = ClearRing(frac_bits, rounding="floor")
    padded = clipped_sums(floor, gradients(mixed, plan), plan, np.arange(16) % 2)
    real = clipped_sums(floor, gradients(batch, plan), plan, None)
    for got, want in zip(flat(padded), flat(real), strict=True):
        np.testing.assert_array_equal(got, want)


@presets
@model
def test_norms_that_owners_supply_change_nothing(shapes, frac_bits):
    plan, ring = plan_of(shapes, frac_bits=frac_bits), ClearRing(frac_bits, rounding="floor")
    batch = random_batch(plan)
    computed = flat(clipped_sums(ring, gradients(batch, plan), plan, None))
    supplied = flat(clipped_sums(ring, gradients(batch, plan, supplied=True), plan, None))
    for got, want in zip(supplied, computed, strict=True):
        np.testing.assert_array_equal(got, want)
