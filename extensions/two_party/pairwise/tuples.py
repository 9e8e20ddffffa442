"""Tuples by name, as a dealer is asked for them: masks, then what follows from them.

`made` is what replaces a dealer: the same kinds and public parameters, and shares that are uniform
to whoever lacks one party's, but for what follows.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from extensions.errors import ArgumentError
from extensions.ring.fixed_point import Integers
from extensions.ring.integer_matmul import matmul
from extensions.ring.joint import correlated, joint_of
from extensions.ring.tuples import (
    BitWords,
    Correlation,
    RandomPlanes,
    RandomWords,
    Sharing,
    TruncationPair,
    WordMasks,
)
from extensions.rules import one_of
from extensions.two_party.pairwise import correlations
from extensions.two_party.pairwise.bits import ands
from extensions.two_party.pairwise.convolutions import CONVOLUTIONS, convolution
from extensions.two_party.pairwise.correlations import Shape, Shares, correlation
from extensions.two_party.pairwise.matrices import cross, product
from extensions.two_party.pairwise.peers import Peers
from extensions.two_party.pairwise.rounds import Making, together
from extensions.two_party.pairwise.transfers import WORD_BYTES
from extensions.two_party.pairwise.words import integers_of_bits, squares, times_words
from extensions.two_party.pairwise.wraps import count_wraps

Fresh = tuple[Sharing | None, ...]
"""How each share of a tuple is shared, if shares of zero are still to be added to it."""


def made(peers: Peers, kind: str, parameters: Sequence[Any]) -> Making[Shares]:
    """Returns this party's shares of one tuple.

    Raises:
        ArgumentError: no such kind, or parameters that it does not have.
        CiphertextError, TransferError: a party sent what is no message; it is named.
    """
    one_of(KINDS).check("kind", kind)
    shares, sharings = yield from KINDS[kind](peers, *parameters)
    each = zip(shares, sharings, strict=True)
    return [share if by is None else _refreshed(peers, share, by) for share, by in each]


def _refreshed(peers: Peers, share: Integers, sharing: Sharing) -> Integers:
    zeros = peers.zeros(share.shape, sharing)
    return share + zeros if sharing == "sum" else share ^ zeros


Tuple = tuple[Shares, Fresh]


def _correlations(
    peers: Peers, wanted: Sequence[Correlation], shapes: Sequence[Shape]
) -> Making[Tuple]:
    each = yield from together(
        [correlation(peers, one, shape) for one, shape in zip(wanted, shapes, strict=True)]
    )
    joint = correlated(wanted, shapes)
    fresh = tuple(part.sharing for part in (*joint.masks, *joint.dependents))
    return [*(masks for masks, _ in each), *(follow for _, follow in each)], fresh


def _correlation(kind: Callable[..., Correlation]) -> Callable[..., Making[Tuple]]:
    def making(peers: Peers, shape: Shape, *parameters: Any) -> Making[Tuple]:
        return _correlations(peers, [kind(*parameters)], [shape])

    return making


def _truncation_pairs(peers: Peers, shapes: Any, shifts: Any) -> Making[Tuple]:
    return _correlations(peers, [TruncationPair(shift) for shift in shifts], shapes)


def _joint(kind: str, make: Callable[..., Making[Shares]]) -> Callable[..., Making[Tuple]]:
    def making(peers: Peers, *parameters: Any) -> Making[Tuple]:
        joint = joint_of(kind, *parameters)
        shares = yield from make(peers, *parameters)
        return shares, tuple(part.sharing for part in (*joint.masks, *joint.dependents))

    return making


def _layer(peers: Peers, rows: Sequence[int], inputs: int, outputs: int) -> Making[Tuple]:
    """Makes masks of x, w and d with x w and d x; of several rows each party draws its own x."""
    total = sum(rows)
    w, d = peers.draw((inputs, outputs)), peers.draw((outputs, total))
    if len(rows) == 1:
        x = peers.draw((total, inputs))
        xw, dx = yield from together([product(peers, x, w), product(peers, d, x)])
        return [x, w, d, xw, dx], (None, None, None, "sum", "sum")
    x = peers.draw((rows[peers.rank], inputs))
    xw, dx = yield from together([_of_owners(peers, rows, x, w), _by_owners(peers, rows, d, x)])
    return [x, w, d, xw, dx], (None, None, None, "sum", "sum")


def _standing_rows(peers: Peers, number: int, rows: Sequence[int], inputs: int) -> Making[Tuple]:
    """Makes a mask of each party's rows, which `_standing_product` takes by its number."""
    x = peers.standing[number] = peers.draw((rows[peers.rank], inputs))
    yield from ()
    return [x], (None,)


def _standing_product(
    peers: Peers, number: int, rows: Sequence[int], inputs: int, outputs: int, is_left: int
) -> Making[Tuple]:
    x, shape = peers.standing[number], (inputs, outputs) if is_left else (outputs, sum(rows))
    mask, by = peers.draw(shape), _of_owners if is_left else _by_owners
    operands = (x, mask) if is_left else (mask, x)
    return [mask, (yield from by(peers, rows, *operands))], (None, "sum")


def _of_owners(peers: Peers, rows: Sequence[int], x: Integers, w: Integers) -> Making[Integers]:
    """Returns shares of x w, for rows x that their owners know."""
    shapes = [(own, w.shape[0]) for own in rows]
    crossed = yield from cross(peers, x, dict.fromkeys(peers.others, w), shapes, w.shape[1])
    result = np.zeros((sum(rows), w.shape[1]), dtype=np.int64)
    blocks = np.split(result, np.cumsum(rows)[:-1])
    blocks[peers.rank] += sum(crossed.own.values(), start=matmul(x, w))
    for other, share in crossed.others.items():
        blocks[other] += share
    return result


def _by_owners(peers: Peers, rows: Sequence[int], d: Integers, x: Integers) -> Making[Integers]:
    """Returns shares of d x, for rows x that their owners know."""
    columns = np.split(d, np.cumsum(rows)[:-1], axis=1)
    rights = {other: columns[other].T for other in peers.others}
    shapes = [(x.shape[1], own) for own in rows]
    crossed = yield from cross(peers, x.T, rights, shapes, len(d))
    each = (*crossed.own.values(), *crossed.others.values())
    return sum(each, start=matmul(x.T, columns[peers.rank].T)).T


def _additive(
    peers: Peers, op: str, left: Shape, right: Shape, args: Sequence[Any], options: Any
) -> Making[Tuple]:
    a, b = peers.draw(tuple(left)), peers.draw(tuple(right))
    if op == "mul":
        making = _elementwise(peers, a, b)
    elif op == "matmul":
        making = _matmul(peers, a, b)
    elif op in CONVOLUTIONS and not args:
        making = convolution(peers, op, a, b, **dict(options))
    else:
        raise ArgumentError("op", op, one_of(("mul", "matmul", *CONVOLUTIONS)))
    return [a, b, (yield from making)], (None, None, "sum")


def _elementwise(peers: Peers, a: Integers, b: Integers) -> Making[Integers]:
    x, y = np.broadcast_arrays(a, b)
    found = yield from times_words(peers, x.reshape(-1), y.reshape(1, -1))
    return found.reshape(x.shape)


def _matmul(peers: Peers, a: Integers, b: Integers) -> Making[Integers]:
    """Returns shares of a @ b, for shapes that NumPy's `@` takes."""
    x, y = (a if a.ndim > 1 else a[None]), (b if b.ndim > 1 else b[:, None])
    batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    xs = np.broadcast_to(x, (*batch, *x.shape[-2:])).reshape(-1, *x.shape[-2:])
    ys = np.broadcast_to(y, (*batch, *y.shape[-2:])).reshape(-1, *y.shape[-2:])
    if xs.shape[2] != ys.shape[1]:
        allowed = "those of matrices that can be multiplied"
        raise ArgumentError("shapes", (a.shape, b.shape), allowed, code="shape")
    found = yield from together([product(peers, *pair) for pair in zip(xs, ys, strict=True)])
    shape = (
        *batch,
        *x.shape[-2 : -1 if a.ndim > 1 else -2],
        *y.shape[-1 : None if b.ndim > 1 else -1],
    )
    return np.reshape(found, shape) if found else np.zeros(shape, dtype=np.int64)


def _square(peers: Peers, size: Shape) -> Making[Tuple]:
    r = peers.draw(tuple(size))
    found = yield from squares(peers, r.reshape(-1))
    return [r, found.reshape(r.shape)], (None, "sum")


def _binary(peers: Peers, left: Shape, right: Shape) -> Making[Tuple]:
    a, b = peers.draw(tuple(left)), peers.draw(tuple(right))
    x, y = np.broadcast_arrays(a, b)
    (found,) = yield from ands(peers, x, y[None])
    return [a, b, found], (None, None, "xor")


def _wraps(peers: Peers, size: Shape) -> Making[Tuple]:
    r = peers.draw(tuple(size))
    return [r, (yield from count_wraps(peers, r))], (None, "sum")


def _bits(peers: Peers, size: Shape) -> Making[Tuple]:
    bits = peers.draw(tuple(size)) & 1
    flat = bits.astype(np.uint8).reshape(-1, 1)
    found = yield from integers_of_bits(peers, flat, np.array([WORD_BYTES]))
    return [bits, found.reshape(bits.shape)], (None, "sum")


KINDS: dict[str, Callable[..., Making[Tuple]]] = {
    "additive": _additive,
    "layer": _layer,
    "standing rows": _standing_rows,
    "standing product": _standing_product,
    "square": _square,
    "binary": _binary,
    "wraps": _wraps,
    "bits": _bits,
    "random words": _correlation(RandomWords),
    "random planes": _correlation(RandomPlanes),
    "truncation pairs": _truncation_pairs,
    "bit words": _correlation(BitWords),
    "word masks": _correlation(WordMasks),
    "selection": _joint("selection", correlations.selection),
    "truncations": _joint("truncations", correlations.truncations),
    "scaled rows": _joint("scaled rows", correlations.scaled_rows),
}
"""By the name that a dealer is asked for; noise that nobody knows is a dealer's alone."""
