"""Two models with a hidden layer: one is better with ReLU, the other with the sigmoid."""

import numpy as np

from extensions.layers.activations import PiecewiseLinear, relu, sigmoid
from extensions.ring.fixed_point import Reals

ROWS = 40
SHAPES = ((5, 4), (4,), (4, 3), (3,))
Weights = list[Reals]


def rivals() -> tuple[Reals, Reals, list[Weights]]:
    """Returns features, labels and both models, with kernels (in, out); checked in floats."""
    draws = np.random.default_rng(3)
    x = draws.uniform(-1, 1, (ROWS, 5)) / np.sqrt(5)
    y = draws.integers(0, 3, ROWS)
    draws = np.random.default_rng(6)
    models = [[draws.normal(0, 2.0, shape) for shape in SHAPES] for _ in range(2)]
    assert [_misses(model, relu(), x, y) for model in models] == [26, 27]
    assert [_misses(model, sigmoid(), x, y) for model in models] == [30, 29]
    return x, y, models


def _misses(weights: Weights, function: PiecewiseLinear, x: Reals, y: Reals) -> int:
    """No lead is so small that rounding could turn it."""
    first, offset, second, last = weights
    knots = np.array(function.thresholds)
    rises = np.ldexp(function.slopes[1:-1], -function.slope_bits) * np.diff(knots)
    heights = function.offset + np.append(0.0, np.cumsum(rises))
    logits = np.interp(x @ first + offset, knots, heights) @ second + last
    lead = logits[np.arange(ROWS), y][:, None] - logits
    lead[np.arange(ROWS), y] = 1.0
    assert np.abs(lead).min() > 2.0**-10
    return int((lead.min(axis=1) <= 0).sum())
