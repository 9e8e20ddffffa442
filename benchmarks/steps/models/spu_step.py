"""The steps of the models of `benchmarks.steps.step`, written in JAX for SPU."""

from typing import Any

import numpy as np

from benchmarks.steps.spu_step import GHOST, MATERIALISED, noisy

PIXELS, SIDE, CLASSES = 784, 28, 10
SHAPES: dict[str, list[tuple[int, ...]]] = {
    "LeNet-5": [(6, 1, 5, 5), (16, 6, 5, 5), (120, 400), (84, 120), (10, 84)],
    "CNN": [(16, 1, 8, 8), (32, 16, 4, 4), (32, 512), (10, 32)],
    "MLP": [(128, 784), (10, 128)],
}
"""Of each weight; those of convolutions are (out, in, height, width)."""


def unfolded(x: Any, size: int, stride: int, padding: int) -> Any:
    """Returns the windows of images (rows, channels, height, width), (rows, positions, in)."""
    import jax.numpy as jnp

    x = jnp.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    count = (x.shape[2] - size) // stride + 1
    span = stride * (count - 1) + 1
    parts = [
        x[:, :, i : i + span : stride, j : j + span : stride]
        for i in range(size)
        for j in range(size)
    ]
    stacked = jnp.stack(parts, axis=2).reshape(len(x), -1, count * count)
    return stacked.transpose(0, 2, 1)


def pooled(x: Any, kind: str) -> Any:
    """Returns averages of 2 x 2 beside each other, or largest values of 2 x 2 at each place."""
    import jax.numpy as jnp

    if kind == "average":
        rows, channels, height, width = x.shape
        return x.reshape(rows, channels, height // 2, 2, width // 2, 2).mean((3, 5))
    across = jnp.maximum(x[:, :, :-1], x[:, :, 1:])
    return jnp.maximum(across[:, :, :, :-1], across[:, :, :, 1:])


def layers_of(model: str) -> list[tuple[int, int, int, str]]:
    """Returns window, stride, padding and pooling of each convolution, as `pea train` has them."""
    return {
        "LeNet-5": [(5, 1, 2, "average"), (5, 1, 0, "average")],
        "CNN": [(8, 2, 3, "largest"), (4, 2, 0, "largest")],
        "MLP": [],
    }[model]


def logits_of(model: str, x: Any, parts: list[Any], shifts: list[Any]) -> tuple[Any, list[Any]]:
    """Returns logits, and what each layer is applied to: rows, or windows.

    Args:
        model: of `SHAPES`.
        x: rows.
        parts: weights (out, in) and biases in turn.
        shifts: are added to what layers return; their cotangents are the layers' deltas.
    """
    import jax.numpy as jnp

    weights, biases, kept = parts[::2], parts[1::2], []
    last = len(weights) - 1
    for i, window in enumerate(layers_of(model)):
        images = x.reshape(len(x), 1, SIDE, SIDE) if i == 0 else x
        size, stride, padding, pool = window
        kept.append(unfolded(images, size, stride, padding))
        out = kept[-1] @ weights[i].T + biases[i] + shifts[i]
        side = int(out.shape[1] ** 0.5)
        out = jnp.tanh(out).transpose(0, 2, 1).reshape(len(x), -1, side, side)
        x = pooled(out, pool)
    x = x.reshape(len(x), -1)
    for i in range(len(layers_of(model)), last + 1):
        kept.append(x)
        x = x @ weights[i].T + biases[i] + shifts[i]
        if i < last:
            x = jnp.maximum(x, 0.0) if model == "MLP" else jnp.tanh(x)
    return x, kept


def norms_of(inputs: Any, deltas: Any, norms: Any) -> Any:
    """Returns squared norms of a layer's gradients: of inner products, or of gradients."""
    if inputs.ndim == 2:
        return (deltas * deltas).sum(1) * ((inputs * inputs).sum(1) if norms is None else norms)
    positions, values = inputs.shape[1:]
    outputs = deltas.shape[2]
    if positions * (positions + 1 + values + outputs) < outputs * (values + 1):
        ghost = (inputs @ inputs.transpose(0, 2, 1)) * (deltas @ deltas.transpose(0, 2, 1))
        return ghost.sum((1, 2))
    made = deltas.transpose(0, 2, 1) @ inputs
    return (made * made).sum((1, 2))


def step(kind: str, model: str, x: Any, norms: Any, y: Any, *others: Any) -> Any:
    """Returns weights and biases after one step, with bound 1, rate 1 and the parties' noise."""
    import jax
    import jax.numpy as jnp

    count = 2 * len(SHAPES[model])
    parts, noise = list(others[:count]), others[count:]
    shapes = jax.eval_shape(
        lambda: [
            kept @ weight.T
            for kept, weight in zip(
                logits_of(model, x, parts, [0.0] * (count // 2))[1], parts[::2], strict=True
            )
        ]
    )
    shifts = [jnp.zeros(shape.shape, jnp.float32) for shape in shapes]
    logits, back, kept = jax.vjp(lambda own: logits_of(model, x, parts, own), shifts, has_aux=True)
    (deltas,) = back(jax.nn.sigmoid(logits) - y)
    sums = [d if d.ndim == 2 else d.sum(1) for d in deltas]
    factor = None
    if kind == MATERIALISED:
        gradients = []
        for inputs, own in zip(kept, deltas, strict=True):
            windows, errors = (v if v.ndim == 3 else v[:, None] for v in (inputs, own))
            gradients.append(errors.transpose(0, 2, 1) @ windows)
        squares = sum((g * g).sum((1, 2)) for g in gradients) + sum((s * s).sum(1) for s in sums)
        factor = jax.lax.rsqrt(jnp.maximum(squares, 1.0))
        taken = [(g * factor[:, None, None]).sum(0) for g in gradients]
    else:
        if kind == GHOST:
            squares = sum((s * s).sum(1) for s in sums)
            for i, (inputs, own) in enumerate(zip(kept, deltas, strict=True)):
                squares = squares + norms_of(inputs, own, norms if i == 0 else None)
            factor = jax.lax.rsqrt(jnp.maximum(squares, 1.0))
            deltas = [d * factor.reshape(-1, *[1] * (d.ndim - 1)) for d in deltas]
        taken = [
            d.reshape(-1, d.shape[-1]).T @ a.reshape(-1, a.shape[-1])
            for d, a in zip(deltas, kept, strict=True)
        ]
    of_biases = [(s if factor is None else s * factor[:, None]).sum(0) for s in sums]
    updates = [part for pair in zip(taken, of_biases, strict=True) for part in pair]
    return [
        part - update / len(x) for part, update in zip(parts, noisy(updates, noise), strict=True)
    ]


def inputs(batch: int, model: str) -> dict[str, Any]:
    """Returns rows, their squared norms, targets, weights and biases, as `step` draws the rows."""
    draws = np.random.default_rng(0)
    x = draws.uniform(-1.0, 1.0, (batch, PIXELS)) / np.sqrt(PIXELS)
    values: dict[str, Any] = {
        "x": x,
        "norms": (x * x).sum(1),
        "y": np.eye(CLASSES)[np.arange(batch) % CLASSES],
    }
    for i, (outputs, *sizes) in enumerate(SHAPES[model]):
        columns = int(np.prod(sizes))
        bound = np.sqrt((3.0 if layers_of(model) else 6.0) / columns)
        values[f"weight {i}"] = draws.uniform(-bound, bound, (outputs, columns))
        values[f"bias {i}"] = np.zeros(outputs)
    return {name: np.float32(value) for name, value in values.items()}
