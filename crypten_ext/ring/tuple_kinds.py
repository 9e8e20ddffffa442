"""The correlated randomness that our protocols consume, and who may be asked for it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch

from extensions.ring.words import Monomial, Word

Shape = Sequence[int]


@dataclass(frozen=True)
class RandomWords:
    """A uniform word r shared additively and bitwise, with products of its shifted bits."""

    value: torch.Tensor
    bits: Word
    products: dict[Monomial, Word]


@dataclass(frozen=True)
class TruncationPair:
    """A uniform word r, its low 63 bits shifted right by m, and its top bit, additively shared."""

    mask: torch.Tensor
    shifted: torch.Tensor
    top: torch.Tensor


@runtime_checkable
class TupleSource(Protocol):
    """Who deals this party's shares of our tuples; every party asks for the same, in one order."""

    def random_words(self, shape: Shape, products: Sequence[Monomial]) -> RandomWords:
        """Returns fresh uniform words with the named products of their shifted bits."""

    def truncation_pairs(
        self, shapes: Sequence[Shape], shifts: Sequence[int]
    ) -> list[TruncationPair]:
        """Returns fresh truncation pairs, one for each shape and shift."""

    def bit_words(self, shape: Shape, positions: Sequence[int]) -> tuple[Word, torch.Tensor]:
        """Returns uniform words shared bitwise, and additive shares of their bits there."""

    def word_masks(
        self, shape: Shape, wires: int, products: Sequence[Monomial]
    ) -> tuple[list[Word], dict[Monomial, Word]]:
        """Returns a fresh uniform mask for each wire, and XOR shares of the named products."""
