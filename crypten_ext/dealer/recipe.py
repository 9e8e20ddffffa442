"""What a tuple is made of: words that every party draws, and words that are put right.

Every party draws a share of every word from its own stream. The masks are what those shares add
(or XOR) up to. Words that depend on them, or that the dealer draws itself, are put right by a
correction: (value - sum of the drawn shares), which one of the parties adds to its share.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from crypten_ext.dealer.requests import Request
from crypten_ext.masks.keystream import Keystream
from crypten_ext.ring.joint import add_to

Shares = list[torch.Tensor]
Compute = Callable[[Shares, list[Shares], Keystream], Sequence[torch.Tensor]]


@dataclass(frozen=True)
class Piece:
    """Words of one shape, shared additively, bitwise, or bitwise with one bit each.

    With `owners`, the number of rows of each party, every party has only its own rows, and knows
    them.
    """

    shape: tuple[int, ...]
    sharing: Literal["sum", "xor", "bit"]
    owners: tuple[int, ...] | None = None

    @functools.cached_property
    def words(self) -> int:
        """Number of 64-bit words."""
        if min(self.shape, default=0) < 0:
            raise ValueError("negative size")
        return math.prod(self.shape)

    def shape_at(self, rank: int) -> tuple[int, ...]:
        """Returns the shape of a party's share."""
        return self.shape if self.owners is None else (self.owners[rank], *self.shape[1:])

    def combine(self, shares: Sequence[torch.Tensor]) -> torch.Tensor:
        """Returns the value that the shares stand for."""
        if self.owners is not None:
            return torch.cat(list(shares))
        join = torch.add if self.sharing == "sum" else torch.bitwise_xor
        return functools.reduce(join, shares)

    def correction(
        self, value: torch.Tensor, shares: Sequence[torch.Tensor], into: torch.Tensor
    ) -> None:
        """Writes into `into` what the shares lack of a value."""
        take = torch.sub if self.sharing == "sum" else torch.bitwise_xor
        for share in shares:
            value = take(value, share, out=into)


@dataclass(frozen=True)
class Recipe:
    """Masks, dependent words, and how these follow from the masks.

    `compute` takes the masks, the shares that every party expanded, and the dealer's own stream.
    `of` is the number and the request of another tuple, whose masks come before its own.
    """

    masks: tuple[Piece, ...]
    dependents: tuple[Piece, ...]
    compute: Compute
    of: tuple[int, Request] | None = None

    @functools.cached_property
    def words(self) -> int:
        """Number of words of the masks, and of those that are corrected."""
        return sum(piece.words for piece in (*self.masks, *self.dependents))

    @functools.cached_property
    def corrected_words(self) -> int:
        """Number of words of the correction."""
        return sum(piece.words for piece in self.dependents)

    def expand(self, stream: Keystream, rank: int) -> Shares:
        """Returns a party's uncorrected shares: the masks', then the dependent words'."""
        pieces = (*self.masks, *self.dependents)
        shapes = [piece.shape_at(rank) for piece in pieces]
        sizes = [math.prod(shape) for shape in shapes]
        drawn = torch.split_with_sizes(stream.words((sum(sizes),)), sizes)
        return [
            (words & 1 if piece.sharing == "bit" else words).reshape(shape)
            for piece, shape, words in zip(pieces, shapes, drawn, strict=True)
        ]

    def combined(self, shares: list[Shares]) -> Shares:
        """Returns the masks whose shares all parties expanded."""
        return [piece.combine([own[i] for own in shares]) for i, piece in enumerate(self.masks)]

    def correction(
        self, shares: list[Shares], dealers: Keystream, others: Sequence[torch.Tensor] = ()
    ) -> torch.Tensor:
        """Returns the flat correction for these shares; `others` are masks of the tuple `of`."""
        values = self.compute([*others, *self.combined(shares)], shares, dealers)
        drawn = zip(*(own[len(self.masks) :] for own in shares), strict=True)
        result = torch.empty(self.corrected_words, dtype=torch.int64)
        parts = torch.split_with_sizes(result, [piece.words for piece in self.dependents])
        for piece, value, own, part in zip(self.dependents, values, drawn, parts, strict=True):
            piece.correction(value, own, part.view(piece.shape))
        return result

    def correct(self, share: Shares, correction: torch.Tensor, start: int) -> None:
        """Corrects a party's shares of the dependent words from number `start` on."""
        for piece, own in zip(self.dependents, share[len(self.masks) :], strict=True):
            if start < piece.words and len(correction):
                words = own.view(-1)[start:][: len(correction)]
                add_to(piece.sharing, words, correction[: len(words)])
                correction = correction[len(words) :]
            start = max(0, start - piece.words)
