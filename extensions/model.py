"""Which models `pea train` knows, and how they run over any ring."""

import re
from dataclasses import dataclass
from typing import Literal

import numpy as np

from extensions.activations import activate, relu, sigmoid, through
from extensions.errors import ArgumentError
from extensions.fixed_point import Reals
from extensions.layers import LayerGradient, backpropagate, linear
from extensions.ring import Ring, Share

INITIAL_SEED = 20230521

Start = Literal["zero", "random"]


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """Layer widths from input to output; ReLU between linear layers, a sigmoid loss behind."""

    widths: tuple[int, ...]

    @classmethod
    def parse(cls, text: str, features: int, classes: int) -> "ModelSpec":
        """Returns the model that ``logistic`` or ``mlp:H`` (or ``mlp:H1,H2``) names.

        Raises:
            ArgumentError: the text names no model.
        """
        if text == "logistic":
            return cls(widths=(features, classes))
        match = re.fullmatch(r"mlp:([1-9]\d{0,3}(?:,[1-9]\d{0,3})*)", text)
        if match is None:
            raise ArgumentError("model", text, "'logistic' or 'mlp:H', such as 'mlp:32'")
        return cls(widths=(features, *(int(h) for h in match[1].split(",")), classes))

    def initial_parameters(self, start: Start | None = None) -> list[tuple[Reals, Reals]]:
        """Returns a public start of training: "zero", or "random", uniform He weights.

        By default it is zero for one layer and random for several. Every party and every backend
        starts from the same values; they hold nothing private.

        Raises:
            ArgumentError: zero for several layers, whose gradients would then all be zero.
        """
        hidden = len(self.widths) > 2
        if start == "zero" and hidden:
            raise ArgumentError("init", start, "'random' or local for a model with hidden layers")
        random = hidden or start == "random"
        generator = np.random.default_rng(INITIAL_SEED)
        layers = []
        for inputs, outputs in zip(self.widths[:-1], self.widths[1:], strict=True):
            bound = np.sqrt(6.0 / inputs) if random else 0.0
            layers.append((generator.uniform(-bound, bound, (outputs, inputs)), np.zeros(outputs)))
        return layers


Parameters = list[tuple[Share, Share]]


def forward(
    ring: Ring, parameters: Parameters, x: Share
) -> tuple[Share, list[tuple[Share, Share]]]:
    """Returns the logits and, for each layer, its input and the slope of what produced that."""
    kept: list[tuple[Share, Share]] = []
    value, slope = x, None
    for i, (weight, bias) in enumerate(parameters):
        kept.append((value, slope))
        value = linear(ring, value, weight, bias)
        if i + 1 < len(parameters):
            value, slope = activate(ring, value, relu())
    return value, kept


def backward(
    ring: Ring,
    parameters: Parameters,
    kept: list[tuple[Share, Share]],
    logits: Share,
    targets: Share,
    squared_norms: Share | None,
) -> list[LayerGradient]:
    """Returns per-example gradients of the sum of sigmoid cross-entropies, layer by layer."""
    probabilities, _ = activate(ring, logits, sigmoid())
    deltas = probabilities - targets
    gradients: list[LayerGradient] = []
    for i in reversed(range(len(parameters))):
        inputs, slope = kept[i]
        norms = squared_norms if i == 0 else None
        gradients.insert(0, LayerGradient(inputs=inputs, deltas=deltas, squared_norm=norms))
        if i:
            deltas = through(ring, backpropagate(ring, deltas, parameters[i][0]), slope, relu())
    return gradients
