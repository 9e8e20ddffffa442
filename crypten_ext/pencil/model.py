"""The model at its owner, in the clear, and how it learns: nobody else has a say in that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from crypten_ext.pencil.terms import Terms
from extensions.protocols.pencil.step import encoded_layer
from extensions.ring.fixed_point import Reals


@dataclass
class Model:
    """The model at its owner, who learns as it likes from what the data owners tell.

    Attributes:
        terms: what the data owners are told.
        layers: weights and biases.
        rate: factor of a mean gradient that is subtracted.
        momentum: part of a change that goes into the next one.
    """

    terms: Terms
    layers: list[tuple[Reals, Reals]]
    rate: float
    momentum: float = 0.0
    _changes: list[Reals] = field(default_factory=list)

    @classmethod
    def begin(cls, terms: Terms, rate: float, momentum: float = 0.0) -> Model:
        """Returns a model at the public start of its kind."""
        return cls(terms, list(terms.spec.initial_parameters()), rate, momentum)

    def check(self) -> None:
        """Raises ArgumentError if a layer is beyond the norm that all bounds are proven for."""
        for layer in self.layers:
            encoded_layer(*layer, self.terms.frac_bits)

    def learn(self, sums: Sequence[Reals], expected: float) -> None:
        """Takes a step against noised sums of gradients, of `expected` records on average."""
        before = self._changes or [np.zeros_like(part) for part in sums]
        self._changes = [
            self.momentum * change + self.rate / expected * part
            for change, part in zip(before, sums, strict=True)
        ]
        flat = [part for pair in self.layers for part in pair]
        moved = [part - change for part, change in zip(flat, self._changes, strict=True)]
        self.layers = list(zip(moved[::2], moved[1::2], strict=True))
