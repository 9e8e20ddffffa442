"""The step of a linear model of `benchmarks.steps.step`, written in JAX for SPU."""

from collections.abc import Sequence
from typing import Any

import numpy as np

PLAIN, GHOST, MATERIALISED = "plain SGD", "DPSGD", "DPSGD, materialised"
"""As in `benchmarks.steps.step`, which needs more than SPU's environment has."""
NAMES = ("x", "norms", "y", "weight", "bias")


def step(kind: str, x: Any, norms: Any, y: Any, weight: Any, bias: Any, *noise: Any) -> Any:
    """Returns weight and bias after one step, with bound 1, rate 1 and the parties' noise.

    rsqrt(max(||g||^2, 1)) is min(1, 1 / ||g||), and keeps rsqrt in the range in which SPU has it.
    """
    import jax
    import jax.numpy as jnp

    delta = jax.nn.sigmoid(x @ weight.T + bias) - y
    if kind == MATERIALISED:
        gradients = delta[:, :, None] * x[:, None, :]
        squares = (gradients * gradients).sum((1, 2)) + (delta * delta).sum(1)
        factor = jax.lax.rsqrt(jnp.maximum(squares, 1.0))[:, None]
        of_weight = (gradients * factor[:, :, None]).sum(0)
        of_bias = (delta * factor).sum(0)
    else:
        if kind == GHOST:
            squares = (delta * delta).sum(1) * (norms + 1.0)
            delta = delta * jax.lax.rsqrt(jnp.maximum(squares, 1.0))[:, None]
        of_weight, of_bias = delta.T @ x, delta.sum(0)
    of_weight, of_bias = noisy((of_weight, of_bias), noise)
    return weight - of_weight / len(x), bias - of_bias / len(x)


def inputs(batch: int, features: int, classes: int) -> dict[str, Any]:
    """Returns rows, their squared norms, targets, weight and bias, as `steps.step` draws them."""
    draws = np.random.default_rng(0)
    x = draws.uniform(-1.0, 1.0, (batch, features)) / np.sqrt(features)
    y = np.eye(classes)[np.arange(batch) % classes]
    weight = draws.uniform(-0.1, 0.1, (classes, features))
    values = (x, (x * x).sum(1), y, weight, np.zeros(classes))
    return {name: np.float32(value) for name, value in zip(NAMES, values, strict=True)}


def noisy(updates: Sequence[Any], noise: Sequence[Any]) -> list[Any]:
    """Returns updates with each party's noise, a vector of as many values as they have together."""
    found, start = [], 0
    for update in updates:
        for own in noise:
            update = update + own[start : start + update.size].reshape(update.shape)
        found.append(update)
        start += update.size
    return found
