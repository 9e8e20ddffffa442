"""Rows that count as much as their class does: exactly, once they are clipped."""

import numpy as np
import pytest

from extensions.layers.linear_layers import LayerGradient, LayerShape
from extensions.layers.losses import WEIGHT_BITS, row_weights
from extensions.protocols.dpsgd import clipped_sums
from extensions.protocols.dpsgd_plan import StepPlan
from extensions.ring.clear import ClearRing
from extensions.ring.fixed_point import decode, encode
from extensions.runs.config import TrainConfig
from tests.helpers.refused import refused

F, ROWS = 20, 60
SHAPE = LayerShape(in_features=4, out_features=2, has_bias=True, input_norm=1.01, delta_norm=1.5)
WEIGHTS = (0.1, 1.0)
ROUNDINGS = ("floor", "ceiling", "extreme", "probabilistic")


def plan(*, private: bool = True, bound: float = 0.5) -> StepPlan:
    return StepPlan(
        frac_bits=F,
        layers=(SHAPE,),
        rows=ROWS,
        learning_rate=1.0,
        expected_batch_size=float(ROWS),
        max_grad_norm=bound,
        noise_multiplier=0.0,
        parties=3,
        private=private,
    )


def batch(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    inputs = draw.normal(size=(ROWS, 4))
    inputs /= np.linalg.norm(inputs, axis=1, keepdims=True)
    deltas = draw.uniform(-1, 1, (ROWS, 2))
    return inputs, deltas, draw.integers(0, 2, ROWS)


def summed(
    inputs: np.ndarray, deltas: np.ndarray, truth: np.ndarray, rounding: str, of: StepPlan
) -> np.ndarray:
    ring = ClearRing(F, rounding=rounding, seed=1)
    targets = encode(np.eye(2)[truth], F)
    layer = LayerGradient(
        inputs=encode(inputs, F), deltas=encode(deltas, F), squared_norm=None, has_bias=True
    )
    padding = np.zeros(len(truth), dtype=np.int64)
    weights = row_weights(ring, targets, WEIGHTS)
    ((weight, bias),) = clipped_sums(ring, [layer], of, padding, weights)
    return decode(np.hstack([weight, bias[:, None]]), F + of.factor_bits)


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_weights_are_exact_and_padding_has_none(rounding):
    ring = ClearRing(F, rounding=rounding, seed=1)
    targets = encode(np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]]), F)
    found = row_weights(ring, targets, (0.1, 1.0, 1e-9))
    assert found.tolist() == [25, 256, 1, 0]
    assert WEIGHT_BITS == 8


@pytest.mark.parametrize("private", [True, False])
@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_sums_are_those_of_weighted_clipped_gradients(rounding, private):
    inputs, deltas, truth = batch()
    of = plan(private=private)
    rows = np.einsum("rk,ri->rki", deltas, np.hstack([inputs, np.ones((ROWS, 1))]))
    norms = np.linalg.norm(rows.reshape(ROWS, -1), axis=1)
    factor = np.minimum(1.0, of.max_grad_norm / norms) if private else np.ones(ROWS)
    counted = np.array([25 / 256, 1.0])[truth] * factor
    found = summed(inputs, deltas, truth, rounding, of)
    np.testing.assert_allclose(found, (counted[:, None, None] * rows).sum(0), atol=0.3)
    exact = (counted[:, None, None] * rows).sum(0)
    assert np.linalg.norm(found - exact) <= 0.01 * ROWS * of.max_grad_norm


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_no_row_moves_the_sum_further_than_without_weights(rounding):
    of = plan(bound=0.3)
    for seed in range(5):
        inputs, deltas, truth = batch(seed)
        for row in range(ROWS):
            one = slice(row, row + 1)
            moved = np.linalg.norm(summed(inputs[one], deltas[one], truth[one], rounding, of))
            assert moved <= of.max_grad_norm * (1 + of.eta) * WEIGHTS[truth[row]]


@pytest.mark.parametrize(
    ("weights", "code"),
    [
        ((0.5,), "shape"),
        ((0.0, 1.0), "range"),
        ((1.1, 1.0), "range"),
        ((float("nan"), 1.0), "range"),
    ],
)
def test_other_weights_are_refused(weights, code):
    with refused("class_weights", code, weights):
        TrainConfig(private=False, classes=2, class_weights=weights)
