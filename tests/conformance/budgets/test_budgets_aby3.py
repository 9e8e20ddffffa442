"""Rounds and bytes of every block on ABY3 are exactly what the protocols cost.

Words of 8 bytes an element, of all servers together; results stay in the form that they come in.
"""

import itertools
from typing import Any

import pytest

from extensions.layers.activations import relu, sigmoid
from extensions.layers.chain import Network
from extensions.protocols.clipping import ClipPlan
from extensions.protocols.inverse_sqrt import InverseSqrtPlan
from tests.conformance.arenas.arena import ABY3Arena
from tests.conformance.budgets.comparison import compared, thresholds_of
from tests.conformance.budgets.test_budgets import Cost, total
from tests.helpers.strategies import MODELS, PRESETS, ROWS, gradients, plan_of, random_batch

N = 10
OPEN = 2
"""Words that servers 0 and 1 send each other to open one that they share."""
BITS = total(
    Cost(1, OPEN + 1 + 7),  # the bits of the mask are dealt, and 7 products of them
    Cost(1, 2 * OPEN + 14),
    Cost(1, 2 * OPEN + 10),
)
SUFFIX_OR = Cost(3, 3 * (OPEN + 7))
CONVERT = Cost(1, 2)
"""A value of servers 0 and 1 becomes replicated, to be multiplied."""
TRUNCATE = Cost(1, OPEN + 2)
TRUNCATE_PRODUCT = Cost(1, 4 + 2)
"""Server 2 sends its summand to both others."""


def to_arithmetic(positions: int) -> Cost:
    return Cost(1, OPEN + positions)


def beside(*costs: Cost) -> Cost:
    """Returns the cost of what is done in the same rounds."""
    return Cost(max(c.rounds for c in costs), sum(c.words for c in costs))


def inverse_sqrt(degree: int, live_bits: int) -> Cost:
    """The input is replicated, the normaliser becomes so; products of masks are dealt."""
    square = beside(TRUNCATE_PRODUCT, Cost(0, 4))  # of which both tops meet
    further = beside(TRUNCATE, TRUNCATE, Cost(0, 2 * 3)) if degree > 2 else Cost(0, 0)
    return total(
        total(BITS, SUFFIX_OR, to_arithmetic(live_bits)),
        total(CONVERT, square, further),
        multiplied(),
        TRUNCATE,
    )


def comparison(elements: int, thresholds: int) -> Cost:
    """Returns the cost of integers that say which elements lie below which thresholds."""
    cost = compared(elements, thresholds)
    return Cost(4, OPEN * cost.converted + cost.dealt + 64 * cost.flags)


def selection(elements: int, thresholds: int, *, shifted: bool = False) -> Cost:
    """A flag is dealt, and its products with the one or two words that the mask is truncated to."""
    cost = compared(elements, thresholds)
    words = thresholds * (3 if shifted else 2) + (2 if shifted else 0)
    return Cost(4, OPEN * cost.converted + cost.dealt + words * elements)


def clip_factor(elements: int, degree: int, thresholds: int = 18, *, shifted: bool = False) -> Cost:
    two = beside(CONVERT, CONVERT)
    rest = total(beside(TRUNCATE, TRUNCATE), two, TRUNCATE_PRODUCT)
    products = 1 if degree == 2 else 2
    arithmetic = total(multiplied(products), TRUNCATE if degree == 2 else rest)
    return total(selection(elements, thresholds, shifted=shifted), each(arithmetic, elements))


def multiplied(products: int = 1) -> Cost:
    """Two values are truncated, and some products of both come with that."""
    return beside(TRUNCATE, TRUNCATE, Cost(0, 3 * products))


def each(cost: Cost, elements: int) -> Cost:
    return Cost(cost.rounds, cost.words * elements)


def assert_costs(cost: tuple[int, int], expected: Cost, elements: int = N) -> None:
    assert cost == (expected.rounds, 8 * elements * expected.words)


def test_the_numbers_that_are_documented():
    # Besides, 1 round and 2 words make the result replicated.
    assert inverse_sqrt(4, 46) == inverse_sqrt(3, 46) == Cost(12, 158)
    assert inverse_sqrt(4, 58) == Cost(12, 170)
    assert inverse_sqrt(2, 46) == Cost(11, 144)
    many = 1 << 12
    assert comparison(many, 6) == Cost(4, round(many * (2 + 15 / 4 + 6 * 237 / 64)))
    assert clip_factor(many, 2) == Cost(6, round(many * (2 + 15 / 4 + 18 * 301 / 64 + 15)))
    assert clip_factor(many, 4).rounds == 8


@pytest.mark.hosts(frac_bits=[20], degree=[2])
@pytest.mark.parametrize("degree", [2, 4])
@pytest.mark.parametrize("frac_bits", PRESETS)
def test_inverse_sqrt(aby3_arena: ABY3Arena, frac_bits: int, degree: int):
    plan = InverseSqrtPlan(frac_bits=frac_bits, degree=degree)
    cost = aby3_arena.cost("inverse_sqrt", [(N,)], frac_bits=frac_bits, plan=plan)
    assert_costs(cost, inverse_sqrt(degree, plan.live_bits))


def test_the_papers_inverse_sqrt(aby3_arena: ABY3Arena):
    rounds, size = aby3_arena.cost("paper_inverse_sqrt", [(N,)], width=40)
    assert rounds == 16
    assert size == 8 * N * 214


@pytest.mark.hosts(degree=[2])
@pytest.mark.parametrize("degree", [2, 4])
def test_clip_factor(aby3_arena: ABY3Arena, degree: int):
    plan = ClipPlan(frac_bits=16, degree=degree)
    cost = aby3_arena.cost("clip_factor", [(N,)], plan=plan)
    assert_costs(cost, clip_factor(N, degree), 1)


@pytest.mark.parametrize("shifts", [[0], [62], [1, 16, 40]])
def test_truncation(aby3_arena: ABY3Arena, shifts: list[int]):
    cost = aby3_arena.cost("truncate", [(N,)], shifts=shifts)
    assert_costs(cost, TRUNCATE, len(shifts) * N)


def test_products_are_local(aby3_arena: ABY3Arena):
    assert aby3_arena.cost("products", [(6, 5), (6, 5)]) == (0, 0)


def test_noise_is_local(aby3_arena: ABY3Arena):
    assert aby3_arena.cost("noise", [(N,)], scale=[3.0], seed=1) == (0, 0)


def test_bits(aby3_arena: ABY3Arena):
    cost = aby3_arena.cost("bits", [(N,)], positions=range(64))
    assert_costs(cost, total(BITS, to_arithmetic(64)))
    cost = aby3_arena.cost("suffix_or", [(N,)])
    assert_costs(cost, total(BITS, SUFFIX_OR, to_arithmetic(64)))


@pytest.mark.parametrize(("function", "thresholds"), [(sigmoid(), 6), (relu(), 2)])
def test_activations(aby3_arena: ABY3Arena, function: Any, thresholds: int):
    rounded = TRUNCATE if function.slope_bits else Cost(0, 0)
    cost = aby3_arena.cost("activate", [(N,)], function=function)
    assert_costs(cost, total(selection(N, thresholds), each(rounded, N)), 1)
    assert cost[0] == (5 if function.slope_bits else 4)


EACH_ONCE = [("linear", False, False), ("hidden", True, False), ("no bias", False, True)]
"""Padding and supplied norms add words row by row, whatever the model: each is counted once."""


@pytest.mark.parametrize(
    ("model", "padded", "supplied"),
    [
        pytest.param(*case, marks=[] if case in EACH_ONCE else pytest.mark.long)
        for case in itertools.product(MODELS, (False, True), (False, True))
    ],
)
def test_dpsgd_step(aby3_arena: ABY3Arena, model: str, supplied: bool, padded: bool):
    plan = plan_of(MODELS[model], parties=3, noise_multiplier=1.1)
    layers = gradients(random_batch(plan), plan)
    shapes = [x.shape for layer in layers for x in (layer.inputs, layer.deltas)]
    shapes += [(ROWS,)] * (supplied + padded)
    row = len(layers) * (1 + multiplied().words)  # the norm of a mask, and two norms' product
    # All are replicated here, so that squares are local, and have a summand of each server.
    row += (2 * len(layers) - supplied) * (TRUNCATE_PRODUCT.words - TRUNCATE.words)
    words = ROWS * row + clip_factor(ROWS, 2, thresholds_of(plan), shifted=True).words
    for s in plan.layers:
        words += ROWS * s.out_features * (OPEN + 2 + TRUNCATE.words + CONVERT.words)
        words += s.out_features * (s.in_features + s.has_bias) * TRUNCATE_PRODUCT.words
    cost = aby3_arena.cost("dpsgd_step", shapes, plan=plan, seed=1, supplied=supplied)
    assert cost == (10, 8 * words)


@pytest.mark.parametrize(
    ("loss", "rounds", "deals"), [("sigmoid", 18, 9), ("least-squares", 13, 7)]
)
def test_a_step_of_a_linear_model(aby3_arena: ABY3Arena, loss: Any, rounds: int, deals: int):
    """At 128 x 512 x 10, but for the round in which the results become replicated.

    Two servers send each other a message a round, and server 2 one a deal. Of logits and update,
    which all three share, it sends both its summand.
    """
    rows, features, classes = 128, 512, 10
    sizes = Network.dense(widths=(features, classes), activations=(), has_bias=(True,), loss=loss)
    shapes = sizes.shapes(max_feature_norm=1.0, max_weight_norm=32.0)
    plan = plan_of(shapes, frac_bits=20, rows=rows, parties=3, noise_multiplier=1.0)
    given = [(rows, features), (rows, classes), (rows,), (classes, features), (classes,)]
    cost = aby3_arena.counts("step_of_a_model", given, frac_bits=20, plan=plan, loss=loss, seed=1)
    logits = rows * classes
    words = logits * TRUNCATE_PRODUCT.words
    if loss == "sigmoid":
        words += selection(logits, 6).words + logits * TRUNCATE.words
    words += rows * (1 + multiplied().words)
    words += clip_factor(rows, 2, thresholds_of(plan), shifted=True).words
    words += logits * (OPEN + 2 + TRUNCATE.words + CONVERT.words)
    words += classes * (features + 1) * TRUNCATE_PRODUCT.words
    assert cost == (rounds - 1, 8 * words, 2 * (rounds - 1) + deals + 2 * 2)


@pytest.mark.hosts(frac_bits=[20])
@pytest.mark.parametrize("frac_bits", PRESETS)
def test_layers_and_a_model_of_two(aby3_arena: ABY3Arena, frac_bits: int):
    rows = 8
    cost = aby3_arena.cost("linear", [(rows, 6), (5, 6), (5,)], frac_bits=frac_bits)
    assert_costs(cost, TRUNCATE_PRODUCT, rows * 5)
    shapes = [(rows, 6), (rows, 3), (5, 6), (5,), (3, 5), (3,)]
    rounds, _ = aby3_arena.cost("model_gradients", shapes, frac_bits=frac_bits)
    assert rounds == 1 + 4 + 2 + 5 + 2 + 1
