"""A step applies the noisy sum at the public rate, with the noise that the guarantee states.

Without clipping and noise it is plain SGD. The variance is tested against its exact law (`ALARM`),
and a sigma 10 % too small is rejected.
"""

import math
from typing import Any

import numpy as np
import pytest

from extensions.layers.linear_layers import LayerGradient
from extensions.privacy.randomness import InsecureSeededSource, SystemSource
from extensions.protocols.dpsgd import clipped_sums, dpsgd_step
from extensions.protocols.dpsgd_plan import StepPlan
from extensions.protocols.noise import summand_scale
from extensions.ring.clear import ClearRing
from extensions.ring.fixed_point import Integers, decode
from tests.helpers.strategies import (
    ALARM,
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
    shape,
    variance_p_value,
)

model = pytest.mark.parametrize("shapes", MODELS.values(), ids=MODELS)
presets = pytest.mark.parametrize("frac_bits", PRESETS)
roundings = pytest.mark.parametrize("rounding", ROUNDINGS)


def assert_step_of(update: list[Integers], noisy: list[Integers], plan: StepPlan) -> None:
    """Fails unless update = K / 2^m times the noisy sum, within an ulp; in exact integers."""
    numerator, bits = plan.step_ratio
    unit = 1 << (bits + plan.factor_bits)
    for moved, total in zip(update, noisy, strict=True):
        exact = total.astype(object) * numerator
        assert (np.abs(moved.astype(object) * unit - exact) < unit).all()


@roundings
@presets
@pytest.mark.parametrize("noise_multiplier", [0.0, 1.3])
@model
def test_update_is_the_noisy_sum_times_the_rate(shapes, noise_multiplier, frac_bits, rounding):
    plan = plan_of(shapes, frac_bits=frac_bits, noise_multiplier=noise_multiplier, colluders=2)
    layers = gradients([*random_batch(plan, count=20), *list(examples(shapes, 1.0))[:12]], plan)
    padding = np.arange(ROWS) // 20
    replay = InsecureSeededSource(7)
    noisy = flat(
        clipped_sums(ClearRing(frac_bits, rounding=rounding, seed=6), layers, plan, padding)
    )
    sigma = noise_multiplier * plan.max_grad_norm * (1 + plan.eta)
    scale = summand_scale(3, sigma, frac_bits=frac_bits + plan.factor_bits, split=plan)
    for party in range(3):
        noisy = [total + replay.gaussian(party, scale, total.shape) for total in noisy]
    ring = ClearRing(frac_bits, rounding=rounding, seed=6)
    update = dpsgd_step(ring, layers, plan, InsecureSeededSource(7), padding)
    assert [bias is not None for _, bias in update] == [s.has_bias for s in shapes]
    assert_step_of(flat(update), noisy, plan)


@roundings
@presets
@model
def test_a_plain_step_is_sgd(shapes, frac_bits, rounding):
    plan = plan_of(shapes, frac_bits=frac_bits, private=False, noise_multiplier=2.0)
    layers = gradients(random_batch(plan), plan)
    ring = ClearRing(frac_bits, rounding=rounding, seed=8)
    update = flat(dpsgd_step(ring, layers, plan, SystemSource()))
    extra = 1 << (plan.factor_bits - frac_bits)
    exact = [
        share * extra
        for layer in layers
        for share in (layer.deltas.T @ layer.inputs, layer.deltas.sum(axis=0) << frac_bits)[
            : 1 + layer.has_bias
        ]
    ]
    assert_step_of(update, exact, plan)
    rate = plan.learning_rate / plan.expected_batch_size
    for got, want in zip(update, materialised(layers, frac_bits, 1.0), strict=False):
        error = np.abs(decode(got, frac_bits) - rate * want)
        assert (error <= rate * np.abs(want) * 2.0**-10 + 2.0**-frac_bits).all()


@pytest.mark.parametrize("parties", [2, 3])
def test_noise_of_a_step_has_its_variance(parties):
    wide = (shape(100, 90, 1.0, 1.0),)
    layers = [
        LayerGradient(inputs=np.zeros((4, 100), np.int64), deltas=np.zeros((4, 90), np.int64))
    ]

    def updates(noise_multiplier: float) -> tuple[Any, StepPlan]:
        plan = plan_of(
            wide,
            frac_bits=20,
            max_grad_norm=0.7,
            learning_rate=12.0,
            parties=parties,
            noise_multiplier=noise_multiplier,
        )
        step = dpsgd_step(ClearRing(20, parties=parties), layers, plan, SystemSource())
        return np.concatenate([decode(x, 20).ravel() for x in flat(step)]), plan

    first, plan = updates(1.1)
    second, _ = updates(1.1)
    weaker, _ = updates(0.9 * 1.1)
    total = 1.5 if parties == 3 else 2.0
    variance = (
        total * (1.1 * 0.7 * (1 + plan.eta) * plan.step_ratio[0] / 2.0 ** plan.step_ratio[1]) ** 2
    )
    for draws in (first, second, (first - second) / math.sqrt(2)):
        assert variance_p_value(draws, variance) > ALARM
    assert variance_p_value(weaker, variance) < ALARM
    assert np.count_nonzero(first == second) < 20
