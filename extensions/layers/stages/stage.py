"""The stages of a network: what each makes of rows, of gradients, and of the bounds of both.

A record is one row in every stage; images are rows too (`extensions.layers.stages.grid`).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from extensions.layers.activations import (
    OUTPUT_SLACK,
    PiecewiseLinear,
    activate,
    activation_gradient,
    output_norm,
)
from extensions.layers.stages.grid import Grid
from extensions.ring.interface import Ring, Share


@dataclass(frozen=True)
class Bound:
    """Bounds of a row's Euclidean norm at one place of a network, and of each value's magnitude."""

    norm: float
    largest: float

    def __add__(self, other: "Bound") -> "Bound":
        """Returns the bound of a sum of rows."""
        return Bound(self.norm + other.norm, self.largest + other.largest)


class Stage:
    """One stage between rows of `inputs` values and rows of `outputs` values.

    Branching stages have `ahead` and `back` in place of `bound`, `forward` and `backward`, and
    those with weights `apply` and `product` in place of the last two.
    """

    inputs: int
    outputs: int

    @property
    def comparisons(self) -> int:
        """Values of a record that are compared at once."""
        return 0

    @property
    def values(self) -> int:
        """Values of a record that it has in memory at once."""
        return max(self.inputs, self.outputs)

    def bound(self, before: Bound) -> Bound:
        """Returns the bound of what it returns, given that of its input; and of weights."""
        raise NotImplementedError

    @property
    def stretch(self) -> float:
        """Bound of the factor by which a gradient grows on its way back through it."""
        return 1.0

    def forward(self, ring: Ring, x: Share) -> tuple[Share, Any]:
        """Returns its output, and what `backward` needs."""
        raise NotImplementedError

    def backward(self, ring: Ring, deltas: Share, kept: Any) -> Share:
        """Returns the gradient at its input, given that at its output."""
        raise NotImplementedError


@dataclass(frozen=True)
class Activation(Stage):
    """A piecewise-linear function of each value (`extensions.layers.activations`)."""

    function: PiecewiseLinear
    inputs: int

    @property
    def outputs(self) -> int:  # type: ignore[override]
        return self.inputs

    @property
    def comparisons(self) -> int:
        return self.inputs * len(self.function.thresholds)

    def bound(self, before: Bound) -> Bound:
        """Returns the function's own bound, or for ReLU that of what came before if it is less."""
        largest = OUTPUT_SLACK * self.function.bound
        return Bound(output_norm(self.function, self.inputs, before.norm), largest)

    def forward(self, ring: Ring, x: Share) -> tuple[Share, Any]:
        return activate(ring, x, self.function)

    def backward(self, ring: Ring, deltas: Share, kept: Any) -> Share:
        return activation_gradient(ring, deltas, kept, self.function)


@dataclass(frozen=True)
class Reorder(Stage):
    """Each value at another place: how PyTorch flattens an image whose channels are last here."""

    places: tuple[int, ...]

    @classmethod
    def between(cls, before: Grid, after: Grid) -> "Reorder":
        """Returns the stage that puts images that lie as the first grid says as the second does."""
        places = np.empty(before.size, dtype=np.int64)
        places[after.places.reshape(-1)] = before.places.reshape(-1)
        return cls(tuple(places.tolist()))

    @property
    def inputs(self) -> int:  # type: ignore[override]
        return len(self.places)

    @property
    def outputs(self) -> int:  # type: ignore[override]
        return len(self.places)

    def bound(self, before: Bound) -> Bound:
        return before

    def forward(self, ring: Ring, x: Share) -> tuple[Share, Any]:
        return ring.gather(x, np.array(self.places)), None

    def backward(self, ring: Ring, deltas: Share, kept: Any) -> Share:
        return ring.gather(deltas, np.argsort(self.places))
