"""How each kind of tuple is dealt: which words are drawn, and which follow from them.

Every party draws a share of every word from its own stream. The masks are what those shares add
(or XOR) up to; the words that depend on them are put right by a correction: (value - sum of the
drawn shares) for each dependent word, which one of the parties adds to its share.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch

from crypten_ext.dealer.requests import Request
from crypten_ext.masks.keystream import Keystream
from crypten_ext.ring.joint import JOINTS, Joint, correlated, joint_of, layer
from extensions.errors import ArgumentError
from extensions.ring.tuples import (
    BitWords,
    Correlation,
    RandomPlanes,
    RandomWords,
    TruncationPair,
    WordMasks,
)

from crypten.common.util import count_wraps

Shares = list[torch.Tensor]
Compute = Callable[[Shares, list[Shares]], Sequence[torch.Tensor]]

OPERATIONS = ("mul", "matmul", "conv1d", "conv2d", "conv_transpose1d", "conv_transpose2d")

MOST_WORDS = 1 << 30
"""Words that a party draws for one tuple: 8 GiB."""


@dataclass(frozen=True)
class Piece:
    """Words of one shape, shared additively, bitwise, or bitwise with one bit each.

    Of words with `owners` every party has its own rows alone, and knows them.

    Attributes:
        shape: of all words.
        sharing: how they are shared.
        owners: number of rows of each party.
    """

    shape: tuple[int, ...]
    sharing: Literal["sum", "xor", "bit"]
    owners: tuple[int, ...] | None = None

    @property
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

    def correct(self, share: torch.Tensor, correction: torch.Tensor) -> None:
        """Changes words of a share so that the value is right."""
        if self.sharing == "sum":
            share += correction
        else:
            share ^= correction


@dataclass(frozen=True)
class Recipe:
    """Masks, dependent words, and how these follow from the masks (and the parties' shares)."""

    masks: tuple[Piece, ...]
    dependents: tuple[Piece, ...]
    compute: Compute

    @property
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

    def correction(self, shares: list[Shares]) -> torch.Tensor:
        """Returns the flat correction for the shares that all parties expanded."""
        masks = [piece.combine([own[i] for own in shares]) for i, piece in enumerate(self.masks)]
        values = self.compute(masks, shares)
        parts = [torch.empty(0, dtype=torch.int64)]
        for i, (piece, value) in enumerate(zip(self.dependents, values, strict=True)):
            drawn = piece.combine([own[len(self.masks) + i] for own in shares])
            parts.append(value - drawn if piece.sharing == "sum" else value ^ drawn)
        return torch.cat([part.reshape(-1) for part in parts])

    def correct(self, share: Shares, correction: torch.Tensor, start: int) -> None:
        """Puts right a party's shares of the dependent words from number `start` on."""
        for piece, own in zip(self.dependents, share[len(self.masks) :], strict=True):
            words = own.view(-1)[start:][: len(correction)]
            piece.correct(words, correction[: len(words)])
            correction, start = correction[len(words) :], max(0, start - piece.words)


@functools.lru_cache(maxsize=256)
def recipe_of(request: Request) -> Recipe:
    """Returns how the requested tuple is dealt.

    Raises:
        ArgumentError: no such kind, no such operation, parameters that the kind does not have, or
            too large a tuple.
    """
    if request.kind not in _KINDS:
        raise ArgumentError("kind", request.kind, f"one of {tuple(_KINDS)}")
    try:
        recipe = _KINDS[request.kind](*request.parameters)
        words = sum(piece.words for piece in (*recipe.masks, *recipe.dependents))
    except ArgumentError:
        raise
    except (TypeError, ValueError, IndexError, ArithmeticError, RuntimeError) as error:
        allowed = f"shapes and counts that {request.kind!r} has"
        raise ArgumentError("parameters", request.parameters, allowed) from error
    if words > MOST_WORDS:
        raise ArgumentError("words", words, f"at most {MOST_WORDS} in one tuple")
    return recipe


def _additive(op: str, size0: Any, size1: Any, args: Any, kwargs: Any) -> Recipe:
    if op not in OPERATIONS:
        raise ArgumentError("op", op, f"one of {OPERATIONS}")
    function = getattr(torch, op)
    options = dict(kwargs)
    product = _product_shape(function, size0, size1, args, options)
    return Recipe(
        (Piece(size0, "sum"), Piece(size1, "sum")),
        (Piece(product, "sum"),),
        lambda masks, _: [function(*masks, *args, **options)],
    )


def _product_shape(function: Any, size0: Any, size1: Any, args: Any, options: Any) -> Any:
    """Returns the shape of the product.

    torch's own inference costs its first caller 0.7 s and 70 MB, so that the usual cases, which
    convolutions are not, go without it.
    """
    if function is torch.mul:
        return np.broadcast_shapes(size0, size1)
    if function is torch.matmul and min(len(size0), len(size1)) > 1 and size0[-1] == size1[-2]:
        return (*np.broadcast_shapes(size0[:-2], size1[:-2]), size0[-2], size1[-1])
    shapes = [torch.empty(size, dtype=torch.int64, device="meta") for size in (size0, size1)]
    return tuple(function(*shapes, *args, **options).shape)


def _layer(rows: Any, inputs: int, outputs: int) -> Recipe:
    """Returns how the masks of `crypten_ext.ring.factors` are dealt."""
    if not rows or min(rows) < 0:
        raise ArgumentError("rows", rows, "a number for each party, or one for all")
    recipe = _of(layer(sum(rows), inputs, outputs))
    if len(rows) == 1:
        return recipe
    x, *others = recipe.masks
    return replace(recipe, masks=(replace(x, owners=tuple(rows)), *others))


def _square(size: Any) -> Recipe:
    return Recipe((Piece(size, "sum"),), (Piece(size, "sum"),), lambda m, _: [m[0] * m[0]])


def _binary(size0: Any, size1: Any) -> Recipe:
    product = tuple(np.broadcast_shapes(size0, size1))
    return Recipe(
        (Piece(size0, "xor"), Piece(size1, "xor")),
        (Piece(product, "xor"),),
        lambda masks, _: [masks[0] & masks[1]],
    )


def _wraps(size: Any) -> Recipe:
    def compute(_: Shares, shares: list[Shares]) -> Shares:
        return [count_wraps([own[0] for own in shares])]

    return Recipe((Piece(size, "sum"),), (Piece(size, "sum"),), compute)


def _bits(size: Any) -> Recipe:
    return Recipe((Piece(size, "bit"),), (Piece(size, "sum"),), lambda masks, _: masks)


def _of(joint: Joint) -> Recipe:
    """Returns how words of `crypten_ext.ring.joint` are dealt."""
    return Recipe(
        tuple(Piece(part.shape, part.sharing) for part in joint.masks),
        tuple(Piece(part.shape, part.sharing) for part in joint.dependents),
        lambda masks, _: joint.follow(masks),
    )


def _random_words(shape: Any, products: Any) -> Recipe:
    return _of(correlated([RandomWords(products)], [shape]))


def _random_planes(shape: Any, products: Any) -> Recipe:
    return _of(correlated([RandomPlanes(products)], [shape]))


def _truncation_pairs(shapes: Any, shifts: Any) -> Recipe:
    return _of(correlated([TruncationPair(shift) for shift in shifts], shapes))


def _bit_words(shape: Any, positions: Any) -> Recipe:
    return _of(correlated([BitWords(positions)], [shape]))


def _word_masks(shape: Any, wires: Any, products: Any) -> Recipe:
    return _of(correlated([WordMasks(wires, products)], [shape]))


def _joint(kind: str, *parameters: Any) -> Recipe:
    return _of(joint_of(kind, *parameters))


def requested(correlations: Sequence[Correlation], shapes: Sequence[Any]) -> tuple[Any, ...]:
    """Returns the kind and the parameters of one correlation, or of several truncation pairs."""
    match correlations:
        case [RandomWords(products)]:
            return "random words", *shapes, products
        case [RandomPlanes(products)]:
            return "random planes", *shapes, products
        case [BitWords(positions)]:
            return "bit words", *shapes, positions
        case [WordMasks(wires, products)]:
            return "word masks", *shapes, wires, products
    pairs = [c for c in correlations if isinstance(c, TruncationPair)]
    assert len(pairs) == len(correlations)
    return "truncation pairs", shapes, [pair.shift for pair in pairs]


_KINDS: dict[str, Callable[..., Recipe]] = {
    "additive": _additive,
    "layer": _layer,
    "square": _square,
    "binary": _binary,
    "wraps": _wraps,
    "bits": _bits,
    "random words": _random_words,
    "random planes": _random_planes,
    "truncation pairs": _truncation_pairs,
    "bit words": _bit_words,
    "word masks": _word_masks,
    **{kind: functools.partial(_joint, kind) for kind in JOINTS},
}
