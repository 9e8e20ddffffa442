"""DPSGD as it is usually written: every example's gradient is made, clipped and then summed.

The baseline of `extensions.protocols.dpsgd.dpsgd_step`, over the same ring and with the same clip
factor, noise and update; only the way to the norms and to the clipped sum differs.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from extensions.layers.linear_layers import LayerGradient, LayerShape
from extensions.protocols.clipping import clip_factor, ratio_up
from extensions.protocols.dpsgd_plan import StepPlan
from extensions.protocols.noise import add_gaussian_noise
from extensions.ring.interface import NoiseSource, Ring, Share


def materialised_step(
    ring: Ring, layers: Sequence[LayerGradient], plan: StepPlan, source: NoiseSource
) -> list[tuple[Share, Share | None]]:
    """Returns, for each layer, what to subtract from its weight and bias.

    A linear layer costs 3 * rows * in_features * out_features products and roundings: gradients,
    squares, clipped gradients. One with positions makes its gradients by products of matrices.
    """
    f = ring.frac_bits
    gradients = _gradients(ring, layers, plan.layers)
    squares = ring.mul([(g, g) for g in gradients])
    total = squares[0].sum(1)
    for square in squares[1:]:
        total = total + square.sum(1)
    ratio, shift = ratio_up(total, f, plan.max_grad_norm, bits=2 * f)
    factor = clip_factor(ring, ratio, plan.clip, shift).reshape(-1, 1)
    sums = [clipped.sum(0) for clipped in ring.mul([(factor, g) for g in gradients])]
    noisy = add_gaussian_noise(
        ring,
        sums,
        plan.sigma,
        frac_bits=2 * f,
        source=source,
        split=plan,
        dealer_noise=plan.dealer_noise,
    )
    numerator, shift = plan.step_ratio
    updates = iter(ring.truncate([(share * numerator, shift + f) for share in noisy]))
    return [
        _update(updates, layer, shape) for layer, shape in zip(layers, plan.layers, strict=True)
    ]


def _gradients(
    ring: Ring, layers: Sequence[LayerGradient], shapes: Sequence[LayerShape]
) -> list[Share]:
    """Returns, for each weight and bias in turn, every example's gradient, (rows, entries)."""
    rows = layers[0].deltas.shape[0]
    both = list(zip(layers, shapes, strict=True))
    outer = [
        (layer.deltas.reshape(rows, -1, 1), layer.inputs.reshape(rows, 1, -1))
        for layer, shape in both
        if shape.positions == 1
    ]
    summed = [_of_positions(ring, layer, shape) for layer, shape in both if shape.positions > 1]
    of_rows = iter(ring.mul(outer) if outer else [])
    of_windows = iter(ring.matmul(summed) if summed else [])
    products = [next(of_rows if shape.positions == 1 else of_windows) for shape in shapes]
    weights = iter(ring.truncate([(product, ring.frac_bits) for product in products]))
    gradients = []
    for layer, shape in both:
        gradients.append(next(weights).reshape(rows, -1))
        if layer.has_bias:
            deltas = layer.deltas.reshape(rows, shape.positions, -1)
            gradients.append(deltas.sum(1))
    return gradients


def _of_positions(ring: Ring, layer: LayerGradient, shape: LayerShape) -> tuple[Share, Share]:
    """Returns the factors of each example's gradient, the first one transposed; local."""
    count, outputs = shape.positions, shape.out_features
    places = np.arange(count * outputs).reshape(count, outputs).T
    turned = ring.gather(layer.deltas.reshape(-1, count * outputs), places)
    return turned, layer.inputs.reshape(-1, count, shape.in_features)


def _update(
    updates: Iterator[Share], layer: LayerGradient, shape: LayerShape
) -> tuple[Share, Share | None]:
    weight = next(updates).reshape(shape.out_features, shape.in_features)
    return weight, next(updates) if layer.has_bias else None
