"""How each kind of tuple is dealt: which words are drawn, and which follow from them."""

import functools
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import torch

from crypten_ext.dealer.recipe import Piece, Recipe, Shares
from crypten_ext.dealer.requests import Request
from crypten_ext.masks.keystream import Keystream
from crypten_ext.ring.joint import followed, layer
from crypten_ext.ring.matmul import matmul
from extensions.errors import ArgumentError
from extensions.privacy.discrete import discrete_gaussian
from extensions.privacy.gaussian_table import check_noise_scale
from extensions.protocols.noise import LEAST_SCALE
from extensions.ring.joint import JOINTS, Joint, correlated, joint_of
from extensions.ring.tuples import (
    BitWords,
    Correlation,
    RandomPlanes,
    RandomWords,
    TruncationPair,
    WordMasks,
)
from extensions.rules import Between, one_of

from crypten.common.util import count_wraps

OPERATIONS = ("mul", "matmul", "conv1d", "conv2d", "conv_transpose1d", "conv_transpose2d")

MOST_WORDS = 1 << 30
"""Words that a party draws for one tuple: 8 GiB."""


@functools.lru_cache(maxsize=256)
def recipe_of(request: Request) -> Recipe:
    """Returns how the requested tuple is dealt.

    Raises ArgumentError for an unknown kind or operation, parameters that the kind does not have,
    or too large a tuple.
    """
    one_of(_KINDS).check("kind", request.kind)
    try:
        recipe = _KINDS[request.kind](*request.parameters)
        words = recipe.words
    except ArgumentError:
        raise
    except (TypeError, ValueError, IndexError, ArithmeticError, RuntimeError) as error:
        allowed = f"shapes and counts that {request.kind!r} has"
        raise ArgumentError("parameters", request.parameters, allowed, code="shape") from error
    if words > MOST_WORDS:
        raise ArgumentError("words", words, f"at most {MOST_WORDS} in one tuple")
    return recipe


def _additive(op: str, size0: Any, size1: Any, args: Any, kwargs: Any) -> Recipe:
    one_of(OPERATIONS).check("op", op)
    function = matmul if op == "matmul" else getattr(torch, op)
    options = dict(kwargs)
    product = _product_shape(function, size0, size1, args, options)
    return Recipe(
        (Piece(size0, "sum"), Piece(size1, "sum")),
        (Piece(product, "sum"),),
        lambda masks, *_: [function(*masks, *args, **options)],
    )


def _product_shape(function: Any, size0: Any, size1: Any, args: Any, options: Any) -> Any:
    """Returns the shape of the product.

    torch's own inference costs its first caller 0.7 s and 70 MB: only convolutions need it.
    """
    if function is torch.mul:
        return np.broadcast_shapes(size0, size1)
    if function is matmul and min(len(size0), len(size1)) > 1 and size0[-1] == size1[-2]:
        return (*np.broadcast_shapes(size0[:-2], size1[:-2]), size0[-2], size1[-1])
    shapes = [torch.empty(size, dtype=torch.int64, device="meta") for size in (size0, size1)]
    return tuple(function(*shapes, *args, **options).shape)


def _layer(rows: Any, inputs: int, outputs: int) -> Recipe:
    recipe = _of(layer(_all(rows), inputs, outputs))
    if len(rows) == 1:
        return recipe
    x, *others = recipe.masks
    return replace(recipe, masks=(replace(x, owners=tuple(rows)), *others))


def _all(rows: Any) -> int:
    if not rows or min(rows) < 0:
        raise ArgumentError("rows", rows, "a number for each party, or one for all")
    return sum(rows)


STANDING = "standing rows"


def _standing_rows(number: int, rows: Any, inputs: int) -> Recipe:
    """Returns a mask of all parties' rows alone; `number` is the tuple's own."""
    mask = Piece((_all(rows), inputs), "sum", owners=tuple(rows))
    return Recipe((mask,), (), lambda *_: [])


def _standing_product(number: int, rows: Any, inputs: int, outputs: int, is_left: int) -> Recipe:
    """Returns a fresh mask, and its product with that of the standing rows of this number."""
    total, rest = _all(rows), (inputs, outputs)
    shapes = (rest, (total, outputs)) if is_left else ((outputs, total), rest[::-1])

    def compute(masks: Shares, *_: Any) -> Shares:
        standing, fresh = masks
        return [matmul(standing, fresh) if is_left else matmul(fresh, standing)]

    mask, product = (Piece(shape, "sum") for shape in shapes)
    of = number, Request.of(STANDING, number, rows, inputs)
    return Recipe((mask,), (product,), compute, of)


def _square(size: Any) -> Recipe:
    return Recipe((Piece(size, "sum"),), (Piece(size, "sum"),), lambda m, *_: [m[0] * m[0]])


def _binary(size0: Any, size1: Any) -> Recipe:
    product = tuple(np.broadcast_shapes(size0, size1))
    return Recipe(
        (Piece(size0, "xor"), Piece(size1, "xor")),
        (Piece(product, "xor"),),
        lambda masks, *_: [masks[0] & masks[1]],
    )


def _wraps(size: Any) -> Recipe:
    def compute(_: Shares, shares: list[Shares], __: Keystream) -> Shares:
        return [count_wraps([own[0] for own in shares])]

    return Recipe((Piece(size, "sum"),), (Piece(size, "sum"),), compute)


def _bits(size: Any) -> Recipe:
    return Recipe((Piece(size, "bit"),), (Piece(size, "sum"),), lambda masks, *_: masks)


def _of(joint: Joint) -> Recipe:
    parts = {*joint.masks, *joint.dependents}
    piece = {part: Piece(part.shape, part.sharing) for part in parts}
    return Recipe(
        tuple(piece[part] for part in joint.masks),
        tuple(piece[part] for part in joint.dependents),
        lambda masks, *_: followed(joint, masks),
    )


def _correlation(kind: Callable[..., Correlation], shape: Any, *parameters: Any) -> Recipe:
    return _of(correlated([kind(*parameters)], [shape]))


def _truncation_pairs(shapes: Any, shifts: Any) -> Recipe:
    return _of(correlated([TruncationPair(shift) for shift in shifts], shapes))


def _noise(scale: Any, shapes: Any) -> Recipe:
    """Returns how noise is dealt: the dealer draws it, and no party knows any of it.

    It is a function of the dealer's stream for the tuple's number and description: what is dealt
    again is the same noise, and no party learns the difference of two.
    """
    deviation = float.fromhex(scale)
    Between(LEAST_SCALE, words=f"at least {LEAST_SCALE:g} ring units").check("scale", deviation)
    check_noise_scale(deviation)

    def compute(_: Shares, __: list[Shares], dealers: Keystream) -> Shares:
        return [
            torch.from_numpy(discrete_gaussian(deviation, tuple(shape), dealers.bytes))
            for shape in shapes
        ]

    return Recipe((), tuple(Piece(shape, "sum") for shape in shapes), compute)


def _joint(kind: str, *parameters: Any) -> Recipe:
    return _of(joint_of(kind, *parameters))


@functools.lru_cache(maxsize=1024)
def requested(wanted: tuple[tuple[Correlation, Any], ...]) -> Request:
    """Returns what is asked for one correlation and its shape, or several truncation pairs."""
    (first, shape), *others = wanted
    if not others and type(first) in _CORRELATIONS:
        parameters = (getattr(first, field.name) for field in fields(first))
        return Request.of(_CORRELATIONS[type(first)], shape, *parameters)
    shifts = [pair.shift for pair, _ in wanted if isinstance(pair, TruncationPair)]
    assert len(shifts) == len(wanted)
    return Request.of("truncation pairs", [shape for _, shape in wanted], shifts)


_CORRELATIONS: dict[type[Correlation], str] = {
    RandomWords: "random words",
    RandomPlanes: "random planes",
    BitWords: "bit words",
    WordMasks: "word masks",
}
_KINDS: dict[str, Callable[..., Recipe]] = {
    "additive": _additive,
    "layer": _layer,
    STANDING: _standing_rows,
    "standing product": _standing_product,
    "square": _square,
    "binary": _binary,
    "wraps": _wraps,
    "bits": _bits,
    **{name: functools.partial(_correlation, kind) for kind, name in _CORRELATIONS.items()},
    "truncation pairs": _truncation_pairs,
    "noise": _noise,
    **{kind: functools.partial(_joint, kind) for kind in JOINTS},
}
