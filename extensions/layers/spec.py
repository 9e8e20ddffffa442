"""Which models `pea train` knows, and where their training starts."""

import re
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from extensions.errors import ArgumentError
from extensions.layers.activations import relu
from extensions.layers.chain import Network
from extensions.layers.losses import Loss
from extensions.layers.models.architectures import ARCHITECTURES
from extensions.layers.models.custom import PREFIX, checked, stages_of, takes_images
from extensions.layers.models.lora import lora_sizes
from extensions.layers.models.start_file import is_file, read
from extensions.ring.fixed_point import Reals

INITIAL_SEED = 20230521
MOST_FEATURES, MOST_OUTPUTS = 1 << 24, 1 << 16

Start = str
"""Zero, random, or ``file:DIGEST`` (`extensions.layers.models.start_file`)."""
STARTS = ("zero", "random")
ADDITIVE = "additive"
"""A generalised additive model, which is linear in the cells of a table's columns."""


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """Layer widths from input to output; ReLU between linear layers, a loss behind.

    `kind` names an architecture between input and output, or is a list of layers of one's own
    (`extensions.layers.models.custom`), or "additive", whose input are the columns' cells, or
    adapters of an encoder (`extensions.layers.models.lora`); it is empty for linear layers.
    """

    widths: tuple[int, ...]
    loss: Loss = "sigmoid"
    kind: str = ""

    def __post_init__(self) -> None:
        first, *others = self.widths
        if not (1 <= first <= MOST_FEATURES and all(1 <= m <= MOST_OUTPUTS for m in others)):
            allowed = f"1..{MOST_FEATURES} features, then layers of 1..{MOST_OUTPUTS} outputs"
            raise ArgumentError("widths", self.widths, allowed, code="range")

    @classmethod
    @lru_cache(maxsize=64)
    def parse(cls, text: str, features: int, classes: int, loss: Loss = "sigmoid") -> "ModelSpec":
        """Returns the model that a text names.

        It is ``logistic``, ``additive``, ``mlp:H`` (or ``mlp:H1,H2``), ``lenet``, ``cnn``,
        ``layers:LIST``, or adapters with their sizes, whose weights have columns of their own.
        """
        if (lora := lora_sizes(text)) is not None:
            return cls(widths=(lora.width(classes), classes), loss=loss, kind=text)
        if text == "logistic":
            return cls(widths=(features, classes), loss=loss)
        match = re.fullmatch(r"mlp:([1-9]\d{0,3}(?:,[1-9]\d{0,3})*)", text)
        if match is not None:
            widths = (features, *(int(h) for h in match[1].split(",")), classes)
            return cls(widths=widths, loss=loss)
        if text.startswith(PREFIX):
            checked(text)
        elif text not in (ADDITIVE, *ARCHITECTURES):
            raise ArgumentError(
                "model",
                text,
                "'logistic', 'additive' or 'mlp:H', such as 'mlp:32', or 'lenet' or 'cnn', or "
                "'lora:RANK' with {features=hf:FOLDER}, or 'module:function' of your own",
                code="choice",
            )
        return cls(widths=(features, classes), loss=loss, kind=text)

    @property
    def network(self) -> Network:
        """The layers as every host computes them."""
        if self.is_built:
            features, outputs = self.widths[0], self.widths[-1]
            if self.kind.startswith(PREFIX):
                stages = stages_of(self.kind, features, outputs)
            else:
                stages = list(ARCHITECTURES[self.kind](features, outputs))
            return Network(stages=tuple(stages), loss=self.loss, guarded=True)
        layers = len(self.widths) - 1
        return Network.dense(
            widths=self.widths,
            activations=(relu(),) * (layers - 1),
            has_bias=(True,) * layers,
            loss=self.loss,
            guarded=layers > 2,
        )

    @property
    def takes_images(self) -> bool:
        """Whether records are images."""
        return self.is_built and (not self.kind.startswith(PREFIX) or takes_images(self.kind))

    @property
    def is_built(self) -> bool:
        """Whether it is an architecture, or a list of layers."""
        return self.kind not in ("", ADDITIVE) and lora_sizes(self.kind) is None

    @property
    def parameters(self) -> int:
        """Number of weights and biases."""
        return sum(m * (n + 1) for m, n in self.network.parameter_shapes)

    @property
    def is_deep(self) -> bool:
        """Whether there is more than a linear layer: such a model does not start from zero."""
        return self.is_built or len(self.widths) > 2

    def initial_parameters(self, start: Start | None = None) -> list[tuple[Reals, Reals]]:
        """Returns a public start of training: "zero", "random", uniform He weights, or a file's.

        By default it is zero for one layer and random for several. Every party and every backend
        starts from the same values; they hold nothing private. Of models with other functions than
        ReLU, which halves what comes to it, weights are as LeCun's.
        """
        network = self.network
        if start is not None and is_file(start):
            return list(read(start, tuple(network.parameter_shapes)))
        random = self.is_deep or start == "random"
        generator = np.random.default_rng(INITIAL_SEED)
        if (lora := lora_sizes(self.kind)) is not None:
            outputs = self.widths[-1]
            return [(lora.start(outputs, generator), np.zeros(outputs))]
        gain = 6.0 if all(one.name == "relu" for one in network.activations) else 3.0
        layers = []
        for outputs, inputs in network.parameter_shapes:
            bound = np.sqrt(gain / inputs) if random else 0.0
            layers.append((generator.uniform(-bound, bound, (outputs, inputs)), np.zeros(outputs)))
        return layers
