"""The clip factor on every host: one-sided, exact at both ends; clipped rows keep to the bound."""

import math

import numpy as np
import numpy.typing as npt
import pytest

from extensions.protocols.clipping import ClipPlan
from extensions.ring.fixed_point import Integers, encode
from tests.conformance.arenas.arena import Arena
from tests.extensions.protocols.test_clipping import (
    assert_clipped,
    assert_factor_guarantee,
    rows_of,
    widest,
)
from tests.helpers.strategies import PRESETS, boundaries, directions, true_inverse_root

presets = pytest.mark.parametrize("frac_bits", PRESETS)
degrees = pytest.mark.parametrize("degree", [2, 3, 4])


def clip_factor(arena: Arena, r: npt.ArrayLike, plan: ClipPlan) -> Integers:
    r = np.asarray(r, dtype=np.int64)
    (factor,) = arena.evaluate("clip_factor", [r], frac_bits=plan.frac_bits, plan=plan)
    return factor


def clip_by_norm(arena: Arena, x: Integers, max_norm: float, plan: ClipPlan) -> Integers:
    options = {"max_norm": max_norm, "plan": plan}
    (clipped,) = arena.evaluate("clip_by_norm", [x], frac_bits=plan.frac_bits, **options)
    return clipped


@pytest.mark.hosts(frac_bits=[16], degree=[2])
@degrees
@presets
def test_factor_is_one_sided_and_near(arena: Arena, frac_bits: int, degree: int):
    plan = ClipPlan(frac_bits=frac_bits, degree=degree)
    octaves = 2.0 ** np.linspace(0, plan.range_bits, 20_000, endpoint=False)
    live = np.floor(octaves * 2**frac_bits).astype(np.int64)
    r = np.concatenate([[0], boundaries(plan.live_bits), live])
    factor = clip_factor(arena, r, plan)
    assert_factor_guarantee(r, factor, plan)
    truth = np.minimum(true_inverse_root(np.maximum(r, 1), frac_bits), 2.0**frac_bits)
    assert (factor >= 0.993 * truth - 2).all()


@pytest.mark.hosts(frac_bits=[20], degree=[4])
@degrees
@presets
def test_factor_over_the_widest_range(arena: Arena, frac_bits: int, degree: int):
    plan = widest(frac_bits, degree)
    r = boundaries(plan.live_bits)
    assert_factor_guarantee(r, clip_factor(arena, r, plan), plan)


@pytest.mark.hosts(frac_bits=[16], degree=[2])
@degrees
@presets
def test_factor_is_exact_at_both_ends(arena: Arena, frac_bits: int, degree: int):
    plan = ClipPlan(frac_bits=frac_bits, degree=degree)
    one, end = 1 << frac_bits, 1 << plan.live_bits
    below = clip_factor(arena, [0, 1, one // 2, one - 1], plan)
    assert below.tolist() == [one] * 4
    beyond = [end, end + 1, 2 * end, 2**62, 2**63 - 1, -1, -one, end - 2**63]
    assert clip_factor(arena, beyond, plan).tolist() == [0] * len(beyond)
    live = clip_factor(arena, [one, one + 1, end - 1], plan)
    assert ((live > 0) & (live < one)).all()


@pytest.mark.hosts(frac_bits=[20], max_norm=[7.7])
@presets
@pytest.mark.parametrize("max_norm", [0.1, 1.0, 7.7])
def test_adversarial_rows_are_clipped(arena: Arena, frac_bits: int, max_norm: float):
    x, lengths = rows_of(max_norm, frac_bits)
    clipped = clip_by_norm(arena, x, max_norm, ClipPlan(frac_bits=frac_bits))
    assert_clipped(clipped, max_norm, frac_bits)
    np.testing.assert_array_equal(clipped[lengths <= 0.998], x[lengths <= 0.998])
    assert not clipped[lengths > 256].any()
    kept = (lengths >= 1) & (lengths < 17)
    norms = np.linalg.norm(clipped[kept] / 2**frac_bits, axis=1)
    assert norms.min() >= 0.99 * max_norm - math.sqrt(x.shape[1]) * 2.0**-frac_bits


@pytest.mark.hosts(frac_bits=[20], degree=[3])
@presets
@degrees
def test_rows_at_the_end_of_the_widest_range_are_clipped(arena: Arena, frac_bits: int, degree: int):
    plan = widest(frac_bits, degree)
    largest = min(2.0 ** (plan.range_bits / 2), 2.0 ** (31 - frac_bits))
    x = encode(directions(12) * largest * 0.9999, frac_bits)
    assert_clipped(clip_by_norm(arena, x, 1.0, plan), 1.0, frac_bits)
