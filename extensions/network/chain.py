"""A chain of linear layers with piecewise-linear activations between them, over any ring."""

import itertools
import math
from dataclasses import dataclass

from extensions.errors import ArgumentError
from extensions.network.activations import OUTPUT_SLACK, PiecewiseLinear, activate, through
from extensions.network.layers import (
    LayerGradient,
    LayerShape,
    backpropagate,
    chain_of_shapes,
    linear,
)
from extensions.network.losses import Loss, residual, residual_norm
from extensions.ring.fixed_point import ENCODING_SLACK
from extensions.ring.interface import Ring, Share

Parameters = list[tuple[Share, Share]]
"""The weight and bias of each layer; None for a bias that a layer does not have."""


@dataclass(frozen=True, kw_only=True)
class Network:
    """The public facts about a chain of linear layers.

    Attributes:
        widths: from the input to the output, one more than there are layers.
        activations: between the layers, one fewer than there are layers; each is bounded, since
            that bounds the norms of the next layer's inputs.
        has_bias: of each layer.
        loss: whose gradients are taken at the output.
    """

    widths: tuple[int, ...]
    activations: tuple[PiecewiseLinear, ...]
    has_bias: tuple[bool, ...]
    loss: Loss = "sigmoid"

    def __post_init__(self) -> None:
        layers = len(self.widths) - 1
        if (layers, layers) != (len(self.activations) + 1, len(self.has_bias)):
            given = (len(self.widths), len(self.activations), len(self.has_bias))
            raise ArgumentError(
                "widths, activations, has_bias", given, "of n + 1, n - 1 and n entries, n > 0"
            )
        for function in self.activations:
            if function.bound == math.inf:
                raise ArgumentError("activations", function.name, "bounded functions")
        residual_norm(self.loss, self.widths[-1])

    def shapes(self, *, max_feature_norm: float, max_weight_norm: float) -> tuple[LayerShape, ...]:
        """Returns the bounds of every layer's inputs and deltas.

        Args:
            max_feature_norm: of a row of the features, before it is encoded.
            max_weight_norm: bound of each weight's Frobenius norm.
        """
        norms = [max_feature_norm * ENCODING_SLACK] + [
            OUTPUT_SLACK * function.bound * math.sqrt(width)
            for function, width in zip(self.activations, self.widths[1:-1], strict=True)
        ]
        pairs = itertools.pairwise(self.widths)
        layers = [
            (*pair, bias, norm)
            for pair, bias, norm in zip(pairs, self.has_bias, norms, strict=True)
        ]
        return chain_of_shapes(
            layers,
            delta_norm=residual_norm(self.loss, self.widths[-1]),
            weight_norm=max_weight_norm,
        )


def forward(
    ring: Ring, network: Network, parameters: Parameters, x: Share
) -> tuple[Share, list[tuple[Share, Share]]]:
    """Returns the logits and, for each layer, its input and the slope of what produced that."""
    kept: list[tuple[Share, Share]] = []
    value, slope = x, None
    for i, (weight, bias) in enumerate(parameters):
        kept.append((value, slope))
        value = linear(ring, value, weight, bias)
        if i < len(network.activations):
            value, slope = activate(ring, value, network.activations[i])
    return value, kept


def backward(
    ring: Ring,
    network: Network,
    parameters: Parameters,
    kept: list[tuple[Share, Share]],
    logits: Share,
    targets: Share,
    squared_norms: Share | None,
) -> list[LayerGradient]:
    """Returns per-example gradients of the sum of the examples' losses, layer by layer."""
    deltas = residual(ring, network.loss, logits, targets)
    gradients: list[LayerGradient] = []
    for i in reversed(range(len(parameters))):
        weight, bias = parameters[i]
        inputs, slope = kept[i]
        gradients.insert(
            0,
            LayerGradient(
                inputs=inputs,
                deltas=deltas,
                squared_norm=squared_norms if i == 0 else None,
                has_bias=bias is not None,
            ),
        )
        if i:
            below = backpropagate(ring, deltas, weight)
            deltas = through(ring, below, slope, network.activations[i - 1])
    return gradients
