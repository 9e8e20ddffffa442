"""1/sqrt(x) on every host: never above the true value, and within the promised interval."""

import numpy as np
import numpy.typing as npt
import pytest

from extensions.protocols.inverse_sqrt import InverseSqrtPlan
from extensions.ring.fixed_point import Integers
from tests.conformance.arenas.arena import Arena
from tests.extensions.protocols.test_inverse_sqrt import assert_within_guarantee
from tests.helpers.strategies import PRESETS, boundaries, sweep, true_inverse_root

DEGREES = (2, 3, 4)

presets = pytest.mark.parametrize("frac_bits", PRESETS)
degrees = pytest.mark.parametrize("degree", DEGREES)


def inverse_sqrt(arena: Arena, x: npt.ArrayLike, plan: InverseSqrtPlan) -> Integers:
    x = np.asarray(x, dtype=np.int64)
    (y,) = arena.evaluate("inverse_sqrt", [x], frac_bits=plan.frac_bits, plan=plan)
    return y


def paper_inverse_sqrt(arena: Arena, x: Integers, frac_bits: int, width: int) -> Integers:
    (y,) = arena.evaluate("paper_inverse_sqrt", [x], frac_bits=frac_bits, width=width)
    return y


@pytest.mark.hosts(frac_bits=[20], degree=[4])
@degrees
@presets
def test_never_above_and_at_most_one_percent_below(arena: Arena, frac_bits: int, degree: int):
    plan, x = InverseSqrtPlan(frac_bits=frac_bits, degree=degree), sweep(frac_bits)
    y = inverse_sqrt(arena, x, plan)
    assert_within_guarantee(x, y, plan)
    assert (y >= 0.99 * true_inverse_root(x, frac_bits)).all()


@pytest.mark.hosts(frac_bits=[16], degree=[2])
@degrees
@presets
def test_powers_of_two_and_their_neighbours(arena: Arena, frac_bits: int, degree: int):
    plan = InverseSqrtPlan(frac_bits=frac_bits, degree=degree)
    x = boundaries(plan.live_bits)
    assert_within_guarantee(x, inverse_sqrt(arena, x, plan), plan)


@pytest.mark.hosts(frac_bits=[20], degree=[3])
@degrees
@presets
def test_zero_negative_and_too_large_inputs_give_exactly_zero(
    arena: Arena, frac_bits: int, degree: int
):
    plan = InverseSqrtPlan(frac_bits=frac_bits, degree=degree)
    first = 1 << plan.live_bits
    x = [0, -1, -2, -(2**20), 1 - 2**63, -(2**63), first, first + 1, 2**62, 2**63 - 1]
    assert inverse_sqrt(arena, x, plan).tolist() == [0] * len(x)


@pytest.mark.hosts(shape=[(), (2, 3, 1), (0,)])
@pytest.mark.parametrize("shape", [(), (1,), (2, 3, 1), (0,)])
def test_any_shape(arena: Arena, shape: tuple[int, ...]):
    y = inverse_sqrt(arena, np.full(shape, 4 << 20), InverseSqrtPlan(frac_bits=20))
    assert y.shape == shape
    assert_within_guarantee(np.full(y.size, 4 << 20), y.reshape(-1), InverseSqrtPlan(frac_bits=20))


def assert_near_the_paper(y: Integers, x: Integers, frac_bits: int, width: int) -> None:
    low, high = (0.0086, 9e-5) if width <= 54 else (0.0087, 2e-5)
    true = true_inverse_root(x, frac_bits)
    assert (y <= (1 - high) * true + 2).all()
    assert (y >= (1 - low) * true - 2).all()


@pytest.mark.hosts(frac_bits=[16])
@presets
def test_paper_form_over_the_sweep(arena: Arena, frac_bits: int):
    x = sweep(frac_bits)
    y = paper_inverse_sqrt(arena, x, frac_bits, 40)
    assert_near_the_paper(y, x, frac_bits, 40)
    assert (y / true_inverse_root(x, frac_bits) - 1).min() < -0.0085


@pytest.mark.hosts(frac_bits=[20], width=[2, 40])
@presets
@pytest.mark.parametrize("width", [2, 17, 40, 54, 55, 62])
def test_paper_form_at_every_power_of_two(arena: Arena, frac_bits: int, width: int):
    x = boundaries(width)
    assert_near_the_paper(paper_inverse_sqrt(arena, x, frac_bits, width), x, frac_bits, width)


@pytest.mark.hosts(width=[40])
@pytest.mark.parametrize("width", [17, 40, 61])
def test_paper_form_outside_its_width_is_a_public_constant(arena: Arena, width: int):
    x = np.array([0, -1, -(2**63), 1 << width, (1 << width) + 1, 2**62])
    y = paper_inverse_sqrt(arena, x, 16, width)
    expected = (2.223 - 0.0048) * 2.0**-0.5 * 2.0 ** (16 - (width - 16) // 2)
    assert np.abs(y - expected).max() <= 1 + 1e-3 * expected
