"""A chain of linear layers with piecewise-linear activations between them, over any ring."""

import itertools
import math
from dataclasses import dataclass

from extensions.errors import ArgumentError
from extensions.network.activations import (
    PiecewiseLinear,
    activate,
    activation_gradient,
    output_norm,
)
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
        has_bias: of each layer, whether it has a bias that is trained.
        bias_bits: of the input of biases (`extensions.network.layers.LayerGradient`).
        loss: whose gradients are taken at the output.
    """

    widths: tuple[int, ...]
    activations: tuple[PiecewiseLinear, ...]
    has_bias: tuple[bool, ...]
    bias_bits: int = 0
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
            max_weight_norm: bound of each weight's Frobenius norm; where a loss depends on the
                logits' norm, of the last layer's weight and bias together.
        """
        norms = [max_feature_norm * ENCODING_SLACK] + [
            output_norm(function, width)
            for function, width in zip(self.activations, self.widths[1:-1], strict=True)
        ]
        pairs = itertools.pairwise(self.widths)
        layers = [
            (*pair, bias, norm)
            for pair, bias, norm in zip(pairs, self.has_bias, norms, strict=True)
        ]
        return chain_of_shapes(
            layers,
            delta_norm=residual_norm(
                self.loss, self.widths[-1], self._logits_norm(norms[-1], max_weight_norm)
            ),
            weight_norm=max_weight_norm,
            bias_bits=self.bias_bits,
        )

    def _logits_norm(self, input_norm: float, max_weight_norm: float) -> float:
        """Bounds |W a + b| <= |(W, b)|_F |(a, 1)|, and an ulp of 2^-12 for each coordinate."""
        length = math.hypot(input_norm, self.has_bias[-1])
        return max_weight_norm * length + math.ldexp(math.sqrt(self.widths[-1]), -12)


@dataclass(frozen=True, kw_only=True)
class Trace:
    """A forward pass, with what the backward pass needs of it.

    Attributes:
        ring: the host.
        network: the public facts about the chain.
        parameters: shares of its weights and biases.
        inputs: each layer's input as a factor of its products, (rows, in_features).
        slopes: shares of each activation's derivative, (rows, features).
        logits: shares of the output, (rows, outputs).
    """

    ring: Ring
    network: Network
    parameters: Parameters
    inputs: list[Share]
    slopes: list[Share]
    logits: Share

    def backward(self, targets: Share, squared_norms: Share | None) -> list[LayerGradient]:
        """Returns per-example gradients of the sum of the examples' losses, layer by layer.

        Args:
            targets: shares of (rows, outputs), f fractional bits.
            squared_norms: shares of the rows' squared norms, 2f fractional bits, where their owners
                supplied them; None to compute them.
        """
        deltas = residual(self.ring, self.network.loss, self.logits, targets)
        gradients: list[LayerGradient] = []
        for i in reversed(range(len(self.parameters))):
            weight, _ = self.parameters[i]
            gradients.append(
                LayerGradient(
                    inputs=self.inputs[i],
                    deltas=deltas,
                    squared_norm=None if i else squared_norms,
                    has_bias=self.network.has_bias[i],
                    bias_bits=self.network.bias_bits,
                )
            )
            if i:
                below = backpropagate(self.ring, deltas, weight)
                function = self.network.activations[i - 1]
                deltas = activation_gradient(self.ring, below, self.slopes[i - 1], function)
        return gradients[::-1]


def forward(ring: Ring, network: Network, parameters: Parameters, x: Share) -> Trace:
    """Returns the pass of the rows x, (rows, features), through the chain.

    Cost:
        2 rounds a layer, and those of an activation between two layers.
    """
    inputs, slopes = [ring.factor(x)], []
    for (weight, bias), function in zip(parameters[:-1], network.activations, strict=True):
        value, slope = activate(ring, linear(ring, inputs[-1], weight, bias), function)
        inputs.append(ring.factor(value))
        slopes.append(slope)
    logits = linear(ring, inputs[-1], *parameters[-1])
    return Trace(
        ring=ring,
        network=network,
        parameters=parameters,
        inputs=inputs,
        slopes=slopes,
        logits=logits,
    )
