"""Materialised clipping, the baseline of the benchmarks, computes the same step."""

import numpy as np
import pytest

from benchmarks.steps.materialised import materialised_step
from extensions.privacy.randomness import InsecureSeededSource
from extensions.protocols.dpsgd import dpsgd_step
from extensions.ring.clear import ClearRing
from extensions.ring.fixed_point import decode
from tests.helpers.strategies import (
    MODELS,
    PRESETS,
    ROUNDINGS,
    flat,
    gradients,
    plan_of,
    random_batch,
)


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("frac_bits", PRESETS)
@pytest.mark.parametrize("shapes", MODELS.values(), ids=MODELS)
def test_both_ways_to_clip_give_the_same_update(shapes, frac_bits, rounding):
    """The factors differ by the roundings of their norms, below a thousandth of each gradient."""
    plan = plan_of(shapes, frac_bits=frac_bits)
    layers = gradients(random_batch(plan), plan)
    source = InsecureSeededSource(1)
    ghost, made = (
        flat(step(ClearRing(frac_bits, rounding=rounding, seed=2), layers, plan, source))
        for step in (dpsgd_step, materialised_step)
    )
    rate = plan.learning_rate / plan.expected_batch_size
    for one, other in zip(ghost, made, strict=True):
        assert one.shape == other.shape
        assert np.abs(decode(one, frac_bits)).max() > 100 * 2.0**-frac_bits
        difference = np.abs(decode(one, frac_bits) - decode(other, frac_bits)).max()
        assert difference < rate * plan.rows * plan.max_grad_norm * 1e-3 + 4 * 2.0**-frac_bits


def test_noise_is_that_of_the_private_step():
    plan = plan_of(noise_multiplier=2.0)
    layers = gradients(random_batch(plan), plan)
    quiet, noisy = (
        flat(
            materialised_step(
                ClearRing(16, rounding="floor"),
                layers,
                plan_of(noise_multiplier=sigma),
                InsecureSeededSource(4),
            )
        )
        for sigma in (0.0, 2.0)
    )
    for one, other in zip(quiet, noisy, strict=True):
        assert (one != other).any()
