"""The stages with weights: linear layers, and convolutions as linear layers of windows."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import add
from typing import Any

import numpy as np

from extensions.errors import ArgumentError
from extensions.layers.linear_layers import LayerGradient, LayerShape, largest_output, linear
from extensions.layers.stages.grid import OUTSIDE, Window, fold
from extensions.layers.stages.stage import Bound, Stage
from extensions.ring.fixed_point import Integers
from extensions.ring.interface import Ring, Share
from extensions.rules import Whole

Parameters = list[tuple[Share, Share]]
"""The weight (outputs, inputs) and bias (outputs,) of each layer; None for a bias it has not."""

_COARSE = 12
"""Fractional bits of the coarsest ring in which anything is trained."""


class Trained(Stage, ABC):
    """A stage with weights: one layer, or several beside each other, each with a weight.

    Without `has_weight` and `has_bias`, which say what is trained, the stage is frozen.
    """

    has_bias: bool
    has_weight: bool
    layers: int = 1
    positions: int = 1
    in_features: int
    out_features: int

    @property
    def is_trained(self) -> bool:
        """Whether anything of it is."""
        return self.has_weight or self.has_bias

    @abstractmethod
    def input_norm(self, before: Bound) -> float:
        """Returns a bound of the norm of what one layer is applied to, of all positions."""

    @abstractmethod
    def apply(self, ring: Ring, x: Share, parameters: Parameters) -> tuple[Share, Any]:
        """Returns its output, and what `gradients` needs; 2 rounds."""

    def gradients(self, ring: Ring, deltas: Share, kept: Any) -> list[LayerGradient]:
        """Returns per-example gradients of each layer, given those at its output; local."""
        if not self.is_trained:
            return self.nothing()
        found = self._gradients(ring, deltas, kept)
        if self.has_weight:
            return found
        return [replace(each, inputs=None, deltas=self._summed(each.deltas)) for each in found]

    def nothing(self) -> list[LayerGradient]:
        """Returns what stands for the gradients of frozen layers."""
        return [LayerGradient(inputs=None, deltas=None, has_bias=False)] * self.layers

    def _summed(self, deltas: Share) -> Share:
        """Returns the sum over positions, (rows, out_features)."""
        if self.positions == 1:
            return deltas
        return deltas.reshape(-1, self.positions, self.out_features).sum(1)

    @abstractmethod
    def _gradients(self, ring: Ring, deltas: Share, kept: Any) -> list[LayerGradient]:
        """Returns those of weights and biases."""

    @abstractmethod
    def product(self, ring: Ring, deltas: Share, parameters: Parameters) -> Share:
        """Returns the gradient at its input, 2f fractional bits, not truncated; 1 round."""

    def shape(self, before: Bound, delta_norm: float, bias_bits: int) -> LayerShape:
        """Returns the public facts about each layer.

        The sum of P deltas, which is all that a bias needs, is sqrt(P) times as long at most.
        """
        positions = self.positions if self.has_weight else 1
        return LayerShape(
            in_features=self.in_features,
            out_features=self.out_features,
            has_bias=self.has_bias,
            input_norm=self.input_norm(before),
            delta_norm=delta_norm * math.sqrt(self.positions / positions),
            bias_bits=bias_bits,
            positions=positions,
            has_weight=self.has_weight,
        )


@dataclass(frozen=True)
class Linear(Trained):
    """A linear layer (`extensions.layers.linear_layers.linear`)."""

    inputs: int
    outputs: int
    has_bias: bool = True
    has_weight: bool = True

    @property
    def in_features(self) -> int:  # type: ignore[override]
        return self.inputs

    @property
    def out_features(self) -> int:  # type: ignore[override]
        return self.outputs

    def input_norm(self, before: Bound) -> float:
        return before.norm

    def bound(self, before: Bound, weight_norm: float = math.inf) -> Bound:
        norm = largest_output(before.norm, self.outputs, weight_norm, _COARSE)
        return Bound(norm, norm)

    def apply(self, ring: Ring, x: Share, parameters: Parameters) -> tuple[Share, Any]:
        factor = ring.factor(x)
        return linear(ring, factor, *parameters[0]), factor

    def _gradients(self, ring: Ring, deltas: Share, kept: Any) -> list[LayerGradient]:
        return [LayerGradient(inputs=kept, deltas=deltas, has_bias=self.has_bias)]

    def product(self, ring: Ring, deltas: Share, parameters: Parameters) -> Share:
        (product,) = ring.matmul([(deltas, parameters[0][0])])
        return product


@dataclass(frozen=True)
class Convolution(Trained):
    """A convolution, in the sense of neural networks: a linear layer of what each window holds.

    The channels are split among groups, each of which is a layer of its own with a weight
    (channels / groups, channels of the input / groups x points of the window), its columns in the
    order channel, row, column: PyTorch's weight, flattened. Of its output the channels are last.
    """

    window: Window
    channels: int
    groups: int = 1
    has_bias: bool = True
    has_weight: bool = True

    def __post_init__(self) -> None:
        Whole(1).check("channels", self.channels)
        ours = self.window.grid.channels
        if self.groups < 1 or ours % self.groups or self.channels % self.groups:
            allowed = f"a divisor of the channels before ({ours}) and after ({self.channels})"
            raise ArgumentError("groups", self.groups, allowed, code="range")

    @property
    def values(self) -> int:
        return max(super().values, self.window.values)

    @property
    def layers(self) -> int:  # type: ignore[override]
        return self.groups

    @property
    def positions(self) -> int:  # type: ignore[override]
        return self.window.positions

    @property
    def inputs(self) -> int:  # type: ignore[override]
        return self.window.grid.size

    @property
    def outputs(self) -> int:  # type: ignore[override]
        return self.positions * self.channels

    @property
    def in_features(self) -> int:  # type: ignore[override]
        return self.window.grid.channels // self.groups * self.window.points

    @property
    def out_features(self) -> int:  # type: ignore[override]
        return self.channels // self.groups

    @cached_property
    def _unfolded(self) -> list[Integers]:
        """The places of each group's windows, (positions, in_features)."""
        channels = self.window.grid.channels // self.groups
        return [
            np.ascontiguousarray(
                self.window.places[:, group * channels : (group + 1) * channels]
            ).reshape(self.positions, self.in_features)
            for group in range(self.groups)
        ]

    @cached_property
    def _outputs_of(self) -> list[Integers]:
        """The places of each group's outputs in a row, (positions, out_features)."""
        every = np.arange(self.outputs).reshape(self.positions, self.groups, self.out_features)
        return [every[:, group] for group in range(self.groups)]

    def input_norm(self, before: Bound) -> float:
        """Returns that of the unfolded input, sqrt(overlap) |a|, or what its entries allow."""
        entries = math.sqrt(self.positions * self.in_features) * before.largest
        return min(math.sqrt(self.window.overlap) * before.norm, entries)

    @property
    def stretch(self) -> float:
        """sqrt(overlap), of the adjoint of unfolding, beside the weight's norm."""
        return math.sqrt(self.window.overlap)

    def bound(self, before: Bound, weight_norm: float = math.inf) -> Bound:
        """Returns |W|_F |U|_F + |b| sqrt(positions), and an ulp for each value; of all groups."""
        each = weight_norm * (self.input_norm(before) + math.sqrt(self.positions))
        norm = math.sqrt(self.groups) * each + math.ldexp(math.sqrt(self.outputs), -_COARSE)
        return Bound(norm, norm)

    def apply(self, ring: Ring, x: Share, parameters: Parameters) -> tuple[Share, Any]:
        factors = [ring.unfold(x, places) for places in self._unfolded]
        both = zip(factors, parameters, strict=True)
        products = ring.matmul([(factor, weight.T) for factor, (weight, _) in both])
        scaled = [
            product if bias is None else product + bias * (1 << ring.frac_bits)
            for product, (_, bias) in zip(products, parameters, strict=True)
        ]
        truncated = ring.truncate([(each, ring.frac_bits) for each in scaled])
        rows = x.shape[0]
        return self._beside(ring, [each.reshape(rows, -1) for each in truncated]), factors

    def _beside(self, ring: Ring, groups: Sequence[Share]) -> Share:
        """Returns each group's outputs, (rows, positions * out_features), at their places."""
        if self.groups == 1:
            return groups[0]
        spread = []
        for group, places in zip(groups, self._outputs_of, strict=True):
            where = np.full(self.outputs, OUTSIDE, dtype=np.int64)
            where[places.reshape(-1)] = np.arange(places.size)
            spread.append(ring.gather(group, where))
        return reduce(add, spread)

    def _apart(self, ring: Ring, deltas: Share) -> list[Share]:
        """Returns the gradients at each group's outputs, (rows, positions * out_features)."""
        if self.groups == 1:
            return [deltas]
        return [ring.gather(deltas, places.reshape(-1)) for places in self._outputs_of]

    def _gradients(self, ring: Ring, deltas: Share, kept: Any) -> list[LayerGradient]:
        return [
            LayerGradient(inputs=factor, deltas=own, has_bias=self.has_bias)
            for factor, own in zip(kept, self._apart(ring, deltas), strict=True)
        ]

    def product(self, ring: Ring, deltas: Share, parameters: Parameters) -> Share:
        rows = deltas.shape[0]
        own = [
            each.reshape(rows * self.positions, self.out_features)
            for each in self._apart(ring, deltas)
        ]
        pairs = zip(own, parameters, strict=True)
        products = ring.matmul([(each, weight) for each, (weight, _) in pairs])
        return reduce(
            add,
            [
                fold(ring, product.reshape(rows, -1), places, self.inputs)
                for product, places in zip(products, self._unfolded, strict=True)
            ],
        )


def training(stage: Stage, *, weights: bool | None = None, biases: bool | None = None) -> Stage:
    """Returns the stage with weights and biases trained or not; None leaves them as they are."""
    if not isinstance(stage, Linear | Convolution):
        return stage
    return replace(
        stage,
        has_weight=stage.has_weight if weights is None else weights,
        has_bias=stage.has_bias if biases is None else biases,
    )
