"""The model at its owner, in the clear: how it learns, and its file, of mode 0600."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from crypten_ext.pencil.terms import Terms
from extensions.data.datasets import Labels, write_private
from extensions.errors import ArgumentError
from extensions.layers.passes import forward
from extensions.protocols.host import named, pairs
from extensions.protocols.pencil.step import encoded_layer
from extensions.ring.clear import ClearRing
from extensions.ring.fixed_point import Reals, decode, encode
from extensions.runs.model.files import ModelFile

_TERMS = "terms"
_BLOCK = 4096


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
        self.layers = pairs(moved)


def write_model(path: Path, terms: Terms, layers: list[tuple[Reals, Reals]]) -> None:
    """The file holds this model, as a whole."""
    arrays = named([part for pair in layers for part in pair])
    write_private(path, **arrays, **{_TERMS: np.array(json.dumps(asdict(terms)))})


def read_model(path: Path) -> tuple[Terms, list[tuple[Reals, Reals]]]:
    """Returns what `write_model` wrote.

    Raises ArgumentError if the file is none, or its layers are others than it says.
    """
    file = ModelFile("start", path)
    arrays = file.arrays
    try:
        terms = Terms(**json.loads(str(arrays[_TERMS])))
    except ArgumentError:
        raise
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        allowed = "a model of `pea pencil owner`"
        raise ArgumentError("start", str(path), allowed, code="file") from error
    return terms, pairs(file.reals(terms.network))


def accuracy(terms: Terms, layers: list[tuple[Reals, Reals]], x: Reals, y: Labels) -> float:
    """Returns the fraction of records that the model classifies correctly."""
    f = terms.frac_bits
    ring = ClearRing(f)
    parameters = [(encode(w, f), encode(b, f)) for w, b in layers]
    right = 0
    size = terms.network.rows_at_once(_BLOCK)
    for start in range(0, len(x), size):
        block = slice(start, start + size)
        logits = forward(ring, terms.network, parameters, encode(x[block], f)).logits
        right += int((decode(logits, f).argmax(axis=1) == y[block]).sum())
    return right / len(x)
