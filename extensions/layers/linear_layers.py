"""Linear layers over a ring: their arithmetic, their bounds, and what a private step remembers.

A convolution is a linear layer that is applied at several positions of a record: its input is what
its windows hold there, a row a position.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from extensions.layers.guards import Guard
from extensions.ring.fixed_point import Reals
from extensions.ring.interface import Ring, Share
from extensions.rules import Between

NormMethod = Literal["frozen", "bias", "linear", "ghost", "materialised"]
"""How squared norms of per-example gradients are found (`LayerShape.way`)."""
_NORMS = Between(0.0, 2.0**20, above=True, words="in (0, 2^20]")


@dataclass(frozen=True, kw_only=True)
class LayerGradient:
    """Per-example gradients of one linear layer, unmaterialised: g_j = delta_j (x) (a_j, s).

    Of a layer at several positions, g_j = sum_p delta_jp (x) (u_jp, s); of a bias alone, s times
    the sum of the deltas; and of a frozen layer, of which nothing is trained, there is none.

    The s = 2^-bias_bits is the input whose weight the bias is: a step takes s^2 times what it would
    take from the bias of an input of 1, and s times the noise.

    Attributes:
        inputs: shares of a, (rows, in_features); of u, (rows * positions, in_features); None where
            the weight is frozen.
        deltas: shares of delta, (rows, positions * out_features): the gradient of the sum-reduced
            loss, position by position; of a bias alone their sum over positions, (rows,
            out_features); None of a frozen layer.
        squared_norm: shares of ||a_j||^2 with 2f fractional bits, (rows,), where the owner of the
            row supplied it; None to compute it.
        bias_bits: of s.
        below: shares of the gradient at the layer's input with few bits, (rows, features), where a
            `Guard` is to look at it.
    """

    inputs: Share
    deltas: Share
    squared_norm: Share | None = None
    has_bias: bool = True
    bias_bits: int = 0
    below: Share | None = None

    @property
    def has_weight(self) -> bool:
        """Whether its weight is trained."""
        return self.inputs is not None


@dataclass(frozen=True, kw_only=True)
class LayerShape:
    """The public facts about one linear layer that the bounds need.

    Attributes:
        input_norm: bound of ||a_j||, the Euclidean norm of one row of its input; at several
            positions of all of a record's rows together.
        delta_norm: bound of ||delta_j||, likewise.
        bias_bits: of s, as in `LayerGradient`.
        positions: number of them in a record; 1 of a bias alone.
        guard: of the gradient at its input, without which those of layers before it have no bound
            of use; None if they have.
    """

    in_features: int
    out_features: int
    has_bias: bool
    input_norm: float
    delta_norm: float
    bias_bits: int = 0
    positions: int = 1
    has_weight: bool = True
    guard: Guard | None = None

    def __post_init__(self) -> None:
        needed = {"input_norm": self.has_weight, "delta_norm": self.is_trained}
        for name in (name for name, counts in needed.items() if counts):
            _NORMS.check(name, getattr(self, name), "Rescale the features or cap them.")

    @property
    def is_trained(self) -> bool:
        """Whether its weight or its bias is."""
        return self.has_weight or self.has_bias

    @property
    def bias_norm(self) -> float:
        """The input s of the bias, or 0 without one."""
        return math.ldexp(1.0, -self.bias_bits) if self.has_bias else 0.0

    @property
    def reach(self) -> float:
        """Bound of the root of the sum over positions of |(u_p, s)|^2, of what is trained."""
        return math.hypot(
            self.input_norm * self.has_weight, self.bias_norm * math.sqrt(self.positions)
        )

    @property
    def weights(self) -> int:
        """Number of weights and biases that are trained."""
        return self.out_features * (self.in_features * self.has_weight + self.has_bias)

    @property
    def way(self) -> NormMethod:
        """How squared norms are found: whichever way opens fewer words for a record.

        "frozen": nothing is trained; "bias", of a bias alone: s^2 ||delta||^2;
        "linear": ||delta||^2 (||a||^2 + s^2). Of a layer with P positions "ghost": the sum of
        products of the entries of two P x P matrices, those of all inner products of positions'
        inputs and of positions' deltas; or "materialised": the gradient itself, squared.

        For the ghost both operands of both matrices are opened, P (in + out) words each, and the
        upper halves of both, P (P + 1); for the other one operands and the gradient.
        """
        if not self.has_weight:
            return "bias" if self.has_bias else "frozen"
        if self.positions == 1:
            return "linear"
        operands = self.positions * (self.in_features + self.out_features)
        ghost = self.positions * (self.positions + 1) + operands
        return "ghost" if ghost < self.weights else "materialised"


def any_moves(shapes: Sequence[LayerShape]) -> bool:
    """Whether anything but the last layer is trained: if not, no bound depends on what moves."""
    return any(shape.is_trained for shape in shapes[:-1])


def guard_shifts(shapes: Sequence[LayerShape], frac_bits: int) -> list[int | None]:
    """Returns for each layer what its guard drops of fractional bits; None where there is none."""
    guards = [shape.guard for shape in shapes]
    return [None if guard is None else guard.shift(frac_bits) for guard in guards]


def parameter_norm(weight: Reals, bias: Reals) -> float:
    """Returns the Frobenius norm of (W, b), which is what every bound of a layer's output uses."""
    return float(np.hypot(np.linalg.norm(weight), np.linalg.norm(bias)))


def largest_output(
    input_norm: float, out_features: int, weight_norm: float, frac_bits: int
) -> float:
    """Returns a bound of the norm of a row of a linear layer's output.

    |W a + b| <= |W|_F |a| + |b|, and rounding moves each coordinate by an ulp at most.
    """
    return weight_norm * (input_norm + 1.0) + math.ldexp(math.sqrt(out_features), -frac_bits)


def linear(ring: Ring, inputs: Share, weight: Share, bias: Share | None) -> Share:
    """Returns inputs @ weight.T + bias, rounded once; 2 rounds."""
    (product,) = ring.matmul([(inputs, weight.T)])
    if bias is not None:
        product = product + bias * (1 << ring.frac_bits)
    (output,) = ring.truncate([(product, ring.frac_bits)])
    return output


def backpropagate(ring: Ring, deltas: Share, weight: Share) -> Share:
    """Returns deltas @ weight, the gradient at a linear layer's input; 2 rounds."""
    (product,) = ring.matmul([(deltas, weight)])
    (result,) = ring.truncate([(product, ring.frac_bits)])
    return result
