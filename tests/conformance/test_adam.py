"""Adam's steps on every host are those of the clear ring, and take exactly so many rounds."""

import math

import numpy as np
import pytest

from extensions.ring.clear import ClearRing
from extensions.ring.fixed_point import decode
from tests.conformance.arenas.arena import Arena, Cost, CrypTenArena
from tests.conformance.arenas.recipes import RECIPES
from tests.conformance.budgets.test_budgets import INVERSE_SQRT, comparison, each
from tests.extensions.protocols.test_adam import BITS, F, plan, sums_of

STEPS = 2


def test_steps_are_those_of_the_clear_ring(arena: Arena):
    own = plan()
    bits = F + own.plan.factor_bits
    sums = [np.rint(np.ldexp(part, bits)).astype(np.int64) for part in sums_of(own, 1)[0]]
    given = [*sums, *(np.zeros(part.shape, np.int64) for part in [*sums, *sums])]
    options = {"plan": own, "steps": STEPS, "bits": BITS}
    want = RECIPES["adam"](ClearRing(F, rounding="floor"), *given, **options)
    found = arena.evaluate("adam", given, frac_bits=F, **options)
    for part, wanted in zip(found, want, strict=True):
        np.testing.assert_allclose(decode(part, F), decode(wanted, F), rtol=5e-3, atol=1e-4)
    assert np.abs(decode(want[0], F)).max() > 0.005


@pytest.mark.parametrize("elements", [(4, 7)])
def test_a_step_costs_exactly_this(crypten_arena: CrypTenArena, elements: tuple[int, int]):
    """Roundings of a gradient, its square, those of moments, the floor, the root, a quotient."""
    own = plan()
    shapes = [elements, elements[:1]]
    given = [np.zeros(shape, np.int64) for shape in shapes * 3]
    cost = crypten_arena.cost("adam", given, frac_bits=F, plan=own, steps=1, bits=BITS)
    count = sum(math.prod(shape) for shape in shapes)
    parts = [Cost(1, 2), Cost(1, 2), Cost(1, 3), INVERSE_SQRT[2], Cost(1, 2), Cost(1, 1)]
    floor = comparison(count, 1)
    assert cost == Cost(
        sum(part.rounds for part in parts) + floor.rounds,
        sum(each(part, count).words for part in parts) + floor.words,
    )
    assert cost.rounds == 20
