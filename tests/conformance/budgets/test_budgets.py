"""Rounds and traffic are exactly what the protocols cost, with two parties and with three.

Words are counted as each party contributes them to openings; CrypTen sends 8 bytes for each to the
next party of a ring and receives as many.
"""

import itertools
from typing import Any

import numpy as np
import pytest

from extensions.layers.activations import hard_sigmoid, relu, sigmoid
from extensions.layers.chain import Network
from extensions.protocols.clipping import ClipPlan
from extensions.protocols.inverse_sqrt import InverseSqrtPlan
from extensions.ring.fixed_point import Integers, encode
from tests.conformance.arenas.arena import Cost, CrypTenArena
from tests.conformance.budgets.comparison import compared, thresholds_of
from tests.helpers.strategies import MODELS, PRESETS, ROWS, gradients, plan_of, random_batch

N = 10
BITS = Cost(3, 5)
"""Bit decomposition: an opening, and two levels of two words each."""
SUFFIX_OR = Cost(3, 3)
TO_ARITHMETIC = Cost(1, 1)
MUL = Cost(1, 2)
TRUNCATE = Cost(1, 1)


def total(*steps: Cost, beside: int = 0) -> Cost:
    """Returns the sum of steps; `beside` counts the words of what shares their rounds."""
    return Cost(sum(s.rounds for s in steps), sum(s.words for s in steps) + beside)


LEADING_ONE = total(BITS, SUFFIX_OR, TO_ARITHMETIC)
TWO_TRUNCATED = total(TRUNCATE, beside=TRUNCATE.words)
QUARTIC = total(LEADING_ONE, MUL, TRUNCATE, TWO_TRUNCATED, TWO_TRUNCATED, TRUNCATE)
"""The normalised x, which is squared as well; u^2 beside u, of which products follow; p(u) beside
what it is multiplied by; the result."""
INVERSE_SQRT = {
    2: total(LEADING_ONE, MUL, TRUNCATE, TWO_TRUNCATED, TRUNCATE),
    3: QUARTIC,
    4: QUARTIC,
}


def each(cost: Cost, elements: int = N) -> Cost:
    return Cost(cost.rounds, cost.words * elements)


def comparison(elements: int, thresholds: int) -> Cost:
    """Returns the cost of integers that say which elements lie below which thresholds."""
    return Cost(4, compared(elements, thresholds).converted)


def clip_factor(elements: int = N, degree: int = 2, thresholds: int = 18) -> Cost:
    """Both u and v are opened to be truncated, all that their product needs; so are u v and u^2."""
    polynomial = total(TWO_TRUNCATED, TRUNCATE)
    if degree > 2:
        polynomial = total(TWO_TRUNCATED, TWO_TRUNCATED, MUL, TRUNCATE)
    return total(comparison(elements, thresholds), each(polynomial, elements))


def zeros(*shapes: tuple[int, ...]) -> list[Integers]:
    return [np.zeros(shape, dtype=np.int64) for shape in shapes]


def test_the_numbers_that_are_documented():
    assert INVERSE_SQRT[4] == INVERSE_SQRT[3] == Cost(12, 17)
    assert INVERSE_SQRT[2] == Cost(11, 15)
    many = 1 << 12
    assert comparison(many, 16) == Cost(4, round(many * (1 + 16 * (7 / 16 + 7 / 64))))
    assert clip_factor(many) == Cost(6, round(many * (1 + 18 * (7 / 16 + 7 / 64) + 3)))
    assert clip_factor(many, degree=4).rounds == 8


@pytest.mark.parametrize("degree", [2, 3, 4])
@pytest.mark.parametrize("frac_bits", PRESETS)
def test_inverse_sqrt(crypten_arena: CrypTenArena, frac_bits: int, degree: int):
    plan = InverseSqrtPlan(frac_bits=frac_bits, degree=degree)
    cost = crypten_arena.cost("inverse_sqrt", zeros((N,)), frac_bits=frac_bits, plan=plan)
    assert cost == each(INVERSE_SQRT[degree])


def test_the_papers_inverse_sqrt(crypten_arena: CrypTenArena):
    # Six factors of 2^(exp/2) make three rounds of five products.
    cost = crypten_arena.cost("paper_inverse_sqrt", zeros((N,)), width=40)
    multiplied = Cost(3, 5 * MUL.words)
    second = total(BITS, TO_ARITHMETIC)
    expected = total(LEADING_ONE, MUL, TRUNCATE, second, multiplied, MUL, TRUNCATE, MUL, TRUNCATE)
    assert cost == each(expected)
    assert cost.rounds == 20


@pytest.mark.parametrize("degree", [2, 4])
def test_clip_factor(crypten_arena: CrypTenArena, degree: int):
    plan = ClipPlan(frac_bits=16, degree=degree)
    cost = crypten_arena.cost("clip_factor", zeros((N,)), plan=plan)
    assert cost == clip_factor(degree=degree)


@pytest.mark.parametrize("shifts", [[0], [16], [62], [1, 16, 40]])
def test_truncation(crypten_arena: CrypTenArena, shifts: list[int]):
    cost = crypten_arena.cost("truncate", zeros((N,)), shifts=shifts)
    assert cost == Cost(1, N * len(shifts))


@pytest.mark.parametrize(
    ("function", "thresholds"), [(sigmoid(), 6), (hard_sigmoid(), 2), (relu(), 2)]
)
def test_activations(crypten_arena: CrypTenArena, function: Any, thresholds: int):
    rounded = TRUNCATE if function.slope_bits else Cost(0, 0)
    cost = crypten_arena.cost("activate", zeros((N,)), function=function)
    assert cost == total(comparison(N, thresholds), each(rounded))
    assert cost.rounds == (5 if function.slope_bits else 4)


def method(
    arena: CrypTenArena, name: str, x: Integers, frac_bits: int = 16, **options: Any
) -> Cost:
    answers = arena.run(
        "call_method", x=x, frac_bits=frac_bits, method=name, options=options, upstream=None
    )
    (cost,) = {answer["cost"] for answer in answers}
    return Cost(*cost)


def test_gradient_of_inverse_sqrt(crypten_arena: CrypTenArena):
    x = np.full(N, 1 << 16)
    options = {"method": "inverse_sqrt", "options": {}, "upstream": x}
    answers = crypten_arena.run("call_method", x=x, frac_bits=16, **options)
    once = total(MUL, TRUNCATE)
    assert {answer["cost"] for answer in answers} == {(12, 17 * N)}
    expected = each(total(once, once, beside=once.words))
    assert {answer["backward_cost"] for answer in answers} == {(expected.rounds, expected.words)}
    assert expected.rounds == 4


@pytest.mark.parametrize("max_norm", [1.0, 0.5, 2.0, 0.7, 7.7])
def test_clip_factor_method(crypten_arena: CrypTenArena, max_norm: float):
    assert method(crypten_arena, "clip_factor", *zeros((N,)), max_norm=max_norm) == clip_factor()


@pytest.mark.parametrize(
    ("frac_bits", "max_norm"),
    list(itertools.product(PRESETS, [1.0, 7.7, 2.0**-2, 2.0**-5])),
)
def test_clip_by_norm_method(crypten_arena: CrypTenArena, frac_bits: int, max_norm: float):
    rows, features = 6, 9
    cost = method(
        crypten_arena, "clip_by_norm", *zeros((rows, features)), frac_bits, max_norm=max_norm
    )
    row = 1  # the squared norm; the factor's rounding is in its cost
    element = 1 + 1  # opened once for square and product, which is rounded
    words = clip_factor(rows).words + rows * (row + features * element)
    assert cost == Cost(9, words)


def test_count_correct(crypten_arena: CrypTenArena):
    rows, classes = 6, 4
    logits, targets = zeros((rows, classes), (rows, classes))
    answers = crypten_arena.run("count_correct", logits=logits, targets=targets, frac_bits=16)
    words = MUL.words * classes * rows + compared(classes * rows, 1).opened
    words += (SUFFIX_OR.words + TO_ARITHMETIC.words) * rows + 1
    assert {cost for _, cost in answers} == {(9, words)}


def test_noise_costs_nothing(crypten_arena: CrypTenArena):
    answers = crypten_arena.run("draw_noise", frac_bits=16, shape=(40,), sigma=1.0)
    assert {answer["cost"] for answer in answers} == {(0, 0)}


def test_rows_that_were_scaled_are_opened_anew(crypten_arena: CrypTenArena):
    """A mask hides one value: the factor's, and in products of later factors the rows' as well."""
    shapes = zeros((N, 3), (N, 2), (N, 1), (N,))
    once = total(Cost(1, 3 + 2 + 1), TRUNCATE)
    again = total(TRUNCATE, Cost(1, (1 + 3) + (1 + 2)))
    assert crypten_arena.cost("scaled_rows", shapes, shift=20) == each(total(once, again))


@pytest.mark.parametrize("supplied", [False, True])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("model", MODELS)
def test_dpsgd_step(crypten_arena: CrypTenArena, model: str, supplied: bool, padded: bool):
    plan = plan_of(MODELS[model], parties=crypten_arena.parties, noise_multiplier=1.1)
    layers = gradients(random_batch(plan), plan)
    given = [x for layer in layers for x in (layer.inputs, layer.deltas)]
    given += zeros((ROWS,)) if supplied else []
    given += zeros((ROWS,)) if padded else []
    row = 2 * len(layers)  # two norms, whose product needs no more; the factor's is in its cost
    words = ROWS * row + clip_factor(ROWS, thresholds=thresholds_of(plan)).words
    for i, s in enumerate(plan.layers):
        squares = s.out_features + (0 if supplied and not i else s.in_features)
        clipped = s.out_features
        operands = s.out_features + s.in_features
        words += ROWS * (squares + clipped + operands)
        words += s.out_features * (s.in_features + s.has_bias)
    cost = crypten_arena.cost("dpsgd_step", given, plan=plan, seed=1, supplied=supplied)
    assert cost == Cost(11, words)


LOSS_ROUNDS = {"sigmoid": 5, "hard-sigmoid": 5, "squared": 4, "least-squares": 0}
"""Of a comparison and the truncation of what has slopes other than 1; none without a cut."""


def predicted(loss: str, elements: int) -> Cost:
    """Returns the cost of predictions that a loss compares with targets."""
    if loss == "least-squares":
        return Cost(0, 0)
    rounded = each(TRUNCATE, elements) if loss != "squared" else Cost(0, 0)
    return total(comparison(elements, 6 if loss == "sigmoid" else 2), rounded)


@pytest.mark.parametrize("momentum", [0.0, 0.75])
@pytest.mark.parametrize("loss", LOSS_ROUNDS)
def test_a_step_of_a_linear_model(crypten_arena: CrypTenArena, loss: str, momentum: float):
    """At 128 x 512 x 10; features are opened once, and momentum adds nothing."""
    rows, features, classes = 128, 512, 10
    sizes = Network.dense(widths=(features, classes), activations=(), has_bias=(True,), loss=loss)  # type: ignore[arg-type]
    plan = plan_of(
        sizes.shapes(max_feature_norm=1.0, max_weight_norm=50.0),
        frac_bits=20,
        rows=rows,
        parties=crypten_arena.parties,
        noise_multiplier=1.1,
        momentum=momentum,
    )
    given = zeros((rows, features), (rows, classes), (rows,), (classes, features), (classes,))
    given += given[-2:] if momentum else []
    cost = crypten_arena.cost("step_of_a_model", given, frac_bits=20, plan=plan, loss=loss, seed=1)
    logits, weights = rows * classes, features * classes
    words = rows * features + weights + logits  # features, weights, and the product that is rounded
    words += predicted(loss, logits).words
    # Residuals are opened to be squared, scaled ones to be rounded, and rounded ones to be summed;
    # two norms of each row.
    words += 3 * logits + 2 * rows + clip_factor(rows, thresholds=thresholds_of(plan)).words
    words += weights + classes
    assert predicted(loss, logits).rounds == LOSS_ROUNDS[loss]
    assert cost == Cost(13 + LOSS_ROUNDS[loss], words)


@pytest.mark.parametrize("frac_bits", PRESETS)
def test_layers_and_a_model_of_two(crypten_arena: CrypTenArena, frac_bits: int):
    rows, widths = 8, (6, 5, 3)
    x, targets = zeros((rows, widths[0]), (rows, widths[2]))
    parameters = zeros((5, 6), (5,), (3, 5), (3,))
    cost = crypten_arena.cost("linear", [x, *parameters[:2]], frac_bits=frac_bits)
    assert cost == Cost(2, rows * 6 + 5 * 6 + rows * 5)
    given = [x, targets, *(encode(p, frac_bits) for p in parameters)]
    cost = crypten_arena.cost("model_gradients", given, frac_bits=frac_bits)
    assert cost.rounds == 2 + 4 + 2 + 5 + 2 + 1
