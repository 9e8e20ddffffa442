"""Which models `pea train` knows, and where their training starts."""

import itertools
import re
from dataclasses import dataclass
from typing import Literal

import numpy as np

from extensions.errors import ArgumentError
from extensions.network.activations import relu
from extensions.network.chain import Network
from extensions.network.losses import Loss
from extensions.ring.fixed_point import Reals

INITIAL_SEED = 20230521

Start = Literal["zero", "random"]


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """Layer widths from input to output; ReLU between linear layers, a loss behind."""

    widths: tuple[int, ...]
    loss: Loss = "sigmoid"

    @classmethod
    def parse(cls, text: str, features: int, classes: int, loss: Loss = "sigmoid") -> "ModelSpec":
        """Returns the model that ``logistic`` or ``mlp:H`` (or ``mlp:H1,H2``) names.

        Raises:
            ArgumentError: the text names no model.
        """
        if text == "logistic":
            return cls(widths=(features, classes), loss=loss)
        match = re.fullmatch(r"mlp:([1-9]\d{0,3}(?:,[1-9]\d{0,3})*)", text)
        if match is None:
            raise ArgumentError("model", text, "'logistic' or 'mlp:H', such as 'mlp:32'")
        widths = (features, *(int(h) for h in match[1].split(",")), classes)
        return cls(widths=widths, loss=loss)

    @property
    def network(self) -> Network:
        """The layers as every host computes them."""
        layers = len(self.widths) - 1
        return Network(
            widths=self.widths,
            activations=(relu(),) * (layers - 1),
            has_bias=(True,) * layers,
            loss=self.loss,
        )

    @property
    def parameters(self) -> int:
        """Number of weights and biases."""
        return sum(m * (n + 1) for n, m in itertools.pairwise(self.widths))

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
