"""Which models `pea train` knows, and where their training starts."""

import re
from dataclasses import dataclass
from typing import Literal

import numpy as np

from extensions.errors import ArgumentError
from extensions.network.activations import relu
from extensions.network.architectures import ARCHITECTURES
from extensions.network.chain import Network
from extensions.network.losses import Loss
from extensions.ring.fixed_point import Reals

INITIAL_SEED = 20230521

Start = Literal["zero", "random"]


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """Layer widths from input to output; ReLU between linear layers, a loss behind.

    Attributes:
        widths: of the input, of linear layers between, and of the output.
        loss: of training.
        kind: name of an architecture between input and output; empty for linear layers.
    """

    widths: tuple[int, ...]
    loss: Loss = "sigmoid"
    kind: str = ""

    @classmethod
    def parse(cls, text: str, features: int, classes: int, loss: Loss = "sigmoid") -> "ModelSpec":
        """Returns the model that the text names.

        Args:
            text: ``logistic``, ``mlp:H`` (or ``mlp:H1,H2``), ``lenet`` or ``cnn``.
            features: of a record.
            classes: number of outputs.
            loss: of training.

        Raises:
            ArgumentError: the text names no model.
        """
        if text == "logistic":
            return cls(widths=(features, classes), loss=loss)
        match = re.fullmatch(r"mlp:([1-9]\d{0,3}(?:,[1-9]\d{0,3})*)", text)
        if match is not None:
            widths = (features, *(int(h) for h in match[1].split(",")), classes)
            return cls(widths=widths, loss=loss)
        if text not in ARCHITECTURES:
            raise ArgumentError(
                "model",
                text,
                "'logistic' or 'mlp:H', such as 'mlp:32', or 'lenet' or 'cnn'",
            )
        return cls(widths=(features, classes), loss=loss, kind=text)

    @property
    def network(self) -> Network:
        """The layers as every host computes them.

        Raises:
            ArgumentError: an architecture that does not take such records.
        """
        if self.kind:
            stages = tuple(ARCHITECTURES[self.kind](self.widths[0], self.widths[-1]))
            return Network(stages=stages, loss=self.loss, guarded=True)
        layers = len(self.widths) - 1
        return Network.dense(
            widths=self.widths,
            activations=(relu(),) * (layers - 1),
            has_bias=(True,) * layers,
            loss=self.loss,
            guarded=layers > 2,
        )

    @property
    def parameters(self) -> int:
        """Number of weights and biases."""
        return sum(m * (n + 1) for m, n in self.network.parameter_shapes)

    def starts_randomly(self, start: Start | None) -> bool:
        """Returns whether the weights of a start are random, by default those of hidden models.

        Raises:
            ArgumentError: of `initial_parameters`.
        """
        hidden = bool(self.kind) or len(self.widths) > 2
        if start == "zero" and hidden:
            raise ArgumentError("init", start, "'random' or local for a model with hidden layers")
        return hidden or start == "random"

    def initial_parameters(self, start: Start | None = None) -> list[tuple[Reals, Reals]]:
        """Returns a public start of training: "zero", or "random", uniform He weights.

        By default it is zero for one layer and random for several. Every party and every backend
        starts from the same values; they hold nothing private. Behind tanh, which halves nothing,
        weights are as LeCun's.

        Raises:
            ArgumentError: zero for several layers, whose gradients would then all be zero.
        """
        random = self.starts_randomly(start)
        generator = np.random.default_rng(INITIAL_SEED)
        gain = 3.0 if self.kind else 6.0
        layers = []
        for outputs, inputs in self.network.parameter_shapes:
            bound = np.sqrt(gain / inputs) if random else 0.0
            layers.append((generator.uniform(-bound, bound, (outputs, inputs)), np.zeros(outputs)))
        return layers
