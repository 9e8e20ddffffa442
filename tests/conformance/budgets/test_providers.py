"""Where CrypTen's provider deals only random bits and standard triples, results are as right.

The pool's provider stays the trusted first party, but under another name, so that every tuple of
ours is built from what any provider has.
"""

from typing import Any

import numpy as np
import pytest

from crypten_ext.processes.launch import Parties
from extensions.protocols.inverse_sqrt import InverseSqrtPlan
from extensions.ring.fixed_point import Integers
from tests.conformance.arenas.arena import TASKS, Cost, CrypTenArena
from tests.extensions.protocols.test_inverse_sqrt import assert_within_guarantee
from tests.helpers.patience import PATIENCE
from tests.helpers.strategies import PRESETS, boundaries, sweep

PREPARED = {"first": 7, "spread": 14, "last": 10, "suffix": 7}
"""Products of masks of two to four factors at a level, of which none is a shift of another: every
subset of four propagate bits, and for the generate bits each subset that some term needs. Each is
one product of two known ones."""


def evaluate(
    arena: CrypTenArena, recipe: str, x: Integers, frac_bits: int = 16, **options: Any
) -> tuple[list[Integers], Cost]:
    answers = arena.run(
        "evaluate_dealt_elsewhere",
        per_party=[{"inputs": [x if rank == 0 else x.shape]} for rank in range(arena.parties)],
        recipe=recipe,
        frac_bits=frac_bits,
        options=options,
    )
    for opened, cost in answers[1:]:
        assert cost == answers[0][1]
        np.testing.assert_equal(opened, answers[0][0])
    return answers[0][0], Cost(*answers[0][1])


@pytest.mark.parametrize("degree", [2, 4])
@pytest.mark.parametrize("frac_bits", PRESETS)
def test_inverse_sqrt(crypten_arena: CrypTenArena, frac_bits: int, degree: int):
    plan = InverseSqrtPlan(frac_bits=frac_bits, degree=degree)
    x = np.concatenate([sweep(frac_bits)[::40], boundaries(plan.live_bits)])
    (y,), _ = evaluate(crypten_arena, "inverse_sqrt", x, frac_bits, plan=plan)
    assert_within_guarantee(x, y, plan)


def test_truncation(crypten_arena: CrypTenArena):
    generator = np.random.default_rng(9)
    z = generator.integers(-(2**62) + 1, 2**62, 300) >> generator.integers(0, 62, 300)
    z = np.concatenate([z, [2**62 - 1, 1 - 2**62, 0, 1, -1]])
    got, cost = evaluate(crypten_arena, "truncate", z, shifts=range(63))
    for m, truncated in enumerate(got):
        up = truncated - (z >> m)
        assert np.isin(up, (0, 1)).all()
        assert not up[z & ((1 << m) - 1) == 0].any()
    assert cost == Cost(1, 63 * len(z))


def test_bits_in_any_order(crypten_arena: CrypTenArena):
    x = np.random.default_rng(10).integers(-(2**63), 2**63 - 1, (7, 9), endpoint=True)
    (got,), _ = evaluate(crypten_arena, "bits", x, positions=[63, 0, 31])
    np.testing.assert_array_equal(got, [(x >> i) & 1 for i in (63, 0, 31)])


def test_preparing_tuples_costs_words_for_products_of_masks(crypten_arena: CrypTenArena):
    # One round for the products of each size (2, 3 and 4 masks), two words for each product.
    plan, n = InverseSqrtPlan(frac_bits=16), 10
    _, cost = evaluate(crypten_arena, "inverse_sqrt", np.full(n, 1 << 16), plan=plan)
    products = PREPARED["first"] + PREPARED["spread"] + PREPARED["last"] + 3 * PREPARED["suffix"]
    assert cost == Cost(15 + 6 * 3, (23 + 2 * products) * n)


@pytest.mark.long
def test_a_trusted_third_party():
    plan = InverseSqrtPlan(frac_bits=16)
    x = np.concatenate([sweep(16)[::200], boundaries(plan.live_bits)])
    z = np.random.default_rng(11).integers(-(2**62) + 1, 2**62, 200)
    with Parties(2, timeout=PATIENCE, provider="ttp") as parties:

        def third_party(recipe: str, value: Integers, **options: Any) -> list[Integers]:
            (opened, _), (others, _) = parties.run(
                f"{TASKS}:evaluate",
                per_party=[{"inputs": [value]}, {"inputs": [value.shape]}],
                recipe=recipe,
                frac_bits=16,
                options=options,
            )
            np.testing.assert_equal(others, opened)
            return list(opened)

        (y,) = third_party("inverse_sqrt", x, plan=plan)
        truncated = third_party("truncate", z, shifts=[1, 16, 62])
    assert_within_guarantee(x, y, plan)
    for m, got in zip((1, 16, 62), truncated, strict=True):
        assert np.isin(got - (z >> m), (0, 1)).all()
