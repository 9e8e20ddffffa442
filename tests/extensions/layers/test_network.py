"""Chains of layers over a ring, how far their weights may move, and how often they are right."""

import math

import numpy as np
import pytest

from extensions.errors import GradientError
from extensions.layers.activations import (
    OUTPUT_SLACK,
    PiecewiseLinear,
    output_norm,
    relu,
    sigmoid,
)
from extensions.layers.chain import Network
from extensions.layers.evaluation import count_misses
from extensions.layers.linear_layers import largest_output, linear
from extensions.layers.passes import forward
from extensions.protocols.dpsgd_plan import StepPlan
from extensions.protocols.drift import Drift
from extensions.protocols.updates import SGDRule
from extensions.ring.clear import ClearRing
from extensions.ring.fixed_point import ENCODING_SLACK, decode, encode
from tests.helpers.refused import refused

F = 20
NETWORK = Network.dense(
    widths=(4, 5, 3, 2), activations=(relu(), sigmoid()), has_bias=(True, False, True)
)


def test_shapes_bound_every_layer():
    shapes = NETWORK.shapes(max_feature_norm=2.0, max_weight_norm=10.0)
    assert [(s.in_features, s.out_features, s.has_bias) for s in shapes] == [
        (4, 5, True),
        (5, 3, False),
        (3, 2, True),
    ]
    slack = OUTPUT_SLACK
    norms = [2.0 * ENCODING_SLACK, slack * 8.0 * math.sqrt(5), slack * math.sqrt(3)]
    assert [s.input_norm for s in shapes] == pytest.approx(norms)
    last = slack * math.sqrt(2)
    assert [s.delta_norm for s in shapes] == pytest.approx([100 * last, 10 * last, last])


def test_a_chain_computes_what_it_says():
    draws = np.random.default_rng(1)
    shapes = [(5, 4), (3, 5), (2, 3)]
    reals = [
        (draws.uniform(-1, 1, s), draws.uniform(-1, 1, s[0]) if b else None)
        for s, b in zip(shapes, NETWORK.has_bias, strict=True)
    ]
    x, y = draws.uniform(-1, 1, (7, 4)), np.eye(2)[draws.integers(0, 2, 7)]
    shared = [(encode(w, F), None if b is None else encode(b, F)) for w, b in reals]
    ring = ClearRing(F, seed=1)
    trace = forward(ring, NETWORK, shared, encode(x, F))
    gradients = trace.backward(encode(y, F), None)

    def apply(function: PiecewiseLinear, z: np.ndarray) -> np.ndarray:
        knots = np.array(function.thresholds)
        slopes = np.array(function.slopes[1:-1]) / 2**function.slope_bits
        values = function.offset + np.concatenate([[0], np.cumsum(slopes * np.diff(knots))])
        return np.interp(z, knots, values)

    a = [x]
    for (w, b), function in zip(reals, (*NETWORK.activations, None), strict=True):
        z = a[-1] @ w.T + (0 if b is None else b)
        a.append(z if function is None else apply(function, z))
    np.testing.assert_allclose(decode(trace.logits, F), a[-1], atol=1e-4)
    assert [g.has_bias for g in gradients] == [True, False, True]
    np.testing.assert_allclose(
        decode(gradients[-1].deltas, F), apply(sigmoid(), a[-1]) - y, atol=1e-4
    )
    for gradient, inputs in zip(gradients, a[:-1], strict=True):
        np.testing.assert_allclose(decode(gradient.inputs, F), inputs, atol=1e-4)


@pytest.mark.parametrize(
    ("widths", "activations", "has_bias"),
    [((4,), (), ()), ((4, 2), (relu(),), (True,)), ((4, 3, 2), (), (True, True))],
)
def test_parts_that_do_not_belong_together_are_refused(widths, activations, has_bias):
    sizes = (len(widths), len(activations), len(has_bias))
    with refused("widths, activations, has_bias", "shape", sizes):
        Network.dense(widths=widths, activations=activations, has_bias=has_bias)


def test_an_unbounded_activation_is_refused():
    line = PiecewiseLinear(
        name="line", thresholds=(0.0,), slopes=(0, 1), offset=0.0, slope_bits=0, bound=math.inf
    )
    with refused("activations", "value", value="line"):
        Network.dense(widths=(2, 2, 2), activations=(line,), has_bias=(True, True))


@pytest.mark.parametrize("frac_bits", [12, 20])
@pytest.mark.parametrize("outputs", [1, 100])
def test_an_output_reaches_its_bound_where_weight_and_bias_are_in_line(frac_bits, outputs):
    ring, ulp = ClearRing(frac_bits, rounding="extreme"), 2.0**-frac_bits
    row, across = np.full(4, 0.5), np.full(outputs, outputs**-0.5)
    for weight_norm in (0.5, 400.0):
        weight, bias = (weight_norm * v for v in (np.outer(across, row), across))
        shares = [encode(v, frac_bits) for v in (row[None], weight, bias)]
        reached = np.linalg.norm(decode(linear(ring, *shares), frac_bits))
        bound = largest_output(1.0, outputs, weight_norm, frac_bits)
        encoding = 4 * ulp * math.sqrt(outputs)
        assert bound - 2 * encoding <= reached <= bound + encoding


def test_an_activation_bounds_its_output():
    assert output_norm(sigmoid(), 9) == pytest.approx(3 * OUTPUT_SLACK)
    assert output_norm(sigmoid(), 9, 0.1) == pytest.approx(3 * OUTPUT_SLACK)
    assert output_norm(relu(2.0), 9) == pytest.approx(6 * OUTPUT_SLACK)
    assert output_norm(relu(2.0), 9, 0.1) == 0.1


def plan_with(learning_rate: float, widths: tuple[int, ...] = (4, 3, 2)) -> StepPlan:
    layers = len(widths) - 1
    network = Network.dense(
        widths=widths, activations=(relu(),) * (layers - 1), has_bias=(True,) * layers
    )
    return StepPlan(
        frac_bits=F,
        layers=network.shapes(max_feature_norm=1.0, max_weight_norm=400.0),
        rows=10,
        learning_rate=learning_rate,
        expected_batch_size=10.0,
        max_grad_norm=1.0,
        noise_multiplier=0.0,
        parties=3,
    )


def test_drift_ends_where_the_bound_does():
    """Without noise a step pulls by learning_rate (1 + eta); 300 of 400 may be used up."""
    drift = Drift(400.0)
    whole = SGDRule(plan_with(1.0))
    for steps in (298, 1):
        drift.check(whole, steps)
        drift.count(whole, steps)
    with pytest.raises(GradientError, match="After 299 steps, 2 more .* more than 300"):
        drift.check(whole, 2)
    drift.check(SGDRule(plan_with(0.5)), 1)
    Drift(400.0).check(SGDRule(plan_with(1.0, (4, 2))), 10_000)


def test_rows_that_are_wrong_are_counted():
    logits = np.array([[1.0, 0.5, -3.0], [0.0, 0.25, 0.2], [2.0, 2.5, 1.0], [-1.0, -2.0, -0.5]])
    truth = np.eye(3)[[0, 1, 0, 2]]
    ring = ClearRing(F)
    assert count_misses(ring, encode(logits, F), encode(truth, F), ties="right") == 1
    one = np.array([[0.5], [-0.5], [3.0], [-0.001]])
    for labels, wrong in (([1, 0, 1, 0], 0), ([0, 0, 1, 1], 2)):
        targets = np.array(labels, dtype=np.float64)[:, None]
        assert count_misses(ring, encode(one, F), encode(targets, F), ties="right") == wrong


@pytest.mark.parametrize("shape", [(4,), (3, 3), (4, 2)])
def test_targets_of_another_shape_are_refused(shape):
    logits, targets = np.zeros((4, 3), np.int64), np.zeros(shape, np.int64)
    with refused("targets", "shape", shape):
        count_misses(ClearRing(F), logits, targets, ties="right")


@pytest.mark.parametrize("classes", [61, 62, 63, 64, 130])
@pytest.mark.parametrize("ties", ["right", "wrong"])
def test_rows_of_any_number_of_classes_are_counted(classes, ties):
    """Each row has one better class at another place, one as good, or neither."""
    draws = np.random.default_rng(classes)
    rows, true = np.arange(3 * classes), draws.integers(0, classes, 3 * classes)
    others = (true + 1 + np.arange(3 * classes) % (classes - 1)) % classes
    logits = draws.uniform(-3.0, 0.0, (3 * classes, classes))
    logits[rows, true] = 1.0
    logits[rows[::3], others[::3]] = 1.25
    logits[rows[1::3], others[1::3]] = 1.0
    targets = encode(np.eye(classes)[true], F)
    wrong = count_misses(ClearRing(F), encode(logits, F), targets, ties=ties)
    assert wrong == classes * (1 if ties == "right" else 2)


def test_one_class_of_several_candidates_is_refused():
    logits, targets = np.zeros((2, 4, 1), np.int64), np.zeros((4, 1), np.int64)
    with refused("classes", "range", value=1):
        count_misses(ClearRing(F), logits, targets, ties="wrong")
