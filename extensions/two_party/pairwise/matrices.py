"""Products of matrices that are shared additively: each two parties' by lattice encryption.

Of a product x w what one party has of x is multiplied by what another one has of w. One of the two
encrypts its part, the other one multiplies (`two_party.lattice.product`): as costs fewer bytes.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from extensions.ring.fixed_point import RING_BITS, Integers
from extensions.ring.integer_matmul import matmul
from extensions.two_party.lattice.plan import Convolution, matrices
from extensions.two_party.pairwise.peers import FLOODING, Peers, told_by
from extensions.two_party.pairwise.rounds import Making, Round, together
from extensions.two_party.pairwise.transfers import Pairs, all_pairs
from extensions.two_party.pairwise.words import BIT_BYTES, PRODUCT_BYTES, squares, times_words


class Crossed(NamedTuple):
    """This party's shares of products with others, by rank.

    `own` are of its left matrix by another's right one, `others` of another's left one by its own.
    """

    own: dict[int, Integers]
    others: dict[int, Integers]


class _Plans(NamedTuple):
    """How two parties multiply: one's left matrix (rows, inner) by another's (inner, columns)."""

    encrypts_left: bool
    shapes: tuple[tuple[int, int], ...]
    columns: int

    def of(self, rank: int) -> Convolution:
        """Returns the plan for this party's left matrix; if that is not encrypted, transposed."""
        return _plan(*self.shapes[rank], self.columns, self.encrypts_left)

    def is_empty(self, rank: int) -> bool:
        """Whether there is nothing to multiply."""
        return 0 in (*self.shapes[rank], self.columns)

    @property
    def size(self) -> int:
        """Bytes of each party's left matrix by the right one of one other party."""
        full = [self.of(rank) for rank in range(len(self.shapes)) if not self.is_empty(rank)]
        return sum(plan.cut.request_bytes(plan) + plan.cut.answer_bytes(plan) for plan in full)


def product(peers: Peers, x: Integers, w: Integers) -> Making[Integers]:
    """Returns additive shares of x w, given those of x (rows, inner) and of w (inner, columns).

    Cost:
        Two rounds and `cost` bytes: small ones are by transfers (`words.times_words`).

    Raises:
        CiphertextError, TransferError: a message is malformed; its sender is named.
    """
    (rows, inner), columns = x.shape, w.shape[1]
    if _by_transfers(rows, inner, columns) <= _by_lattice(rows, inner, columns):
        spread = np.broadcast_to(w.T[:, None], (columns, rows, inner)).reshape(columns, -1)
        found = yield from times_words(peers, x.reshape(-1), spread)
        total: Integers = found.reshape(columns, rows, inner).sum(axis=-1).T
        return total
    shapes = [(rows, inner)] * peers.parties
    crossed = yield from cross(peers, x, dict.fromkeys(peers.others, w), shapes, columns)
    return sum((*crossed.own.values(), *crossed.others.values()), start=matmul(x, w))


def cost(rows: int, inner: int, columns: int) -> int:
    """Returns what a party sends to each other one for a shared product, in bytes."""
    return min(_by_transfers(rows, inner, columns), _by_lattice(rows, inner, columns))


def row_norms(peers: Peers, x: Integers) -> Making[Integers]:
    """Returns additive shares of the squared norm of each row, given those of x (rows, width).

    Of every two parties one encrypts blocks of its rows, and the other multiplies all rows of a
    block by all of its own: what is not asked for costs less than packing each product alone.

    Cost:
        Two rounds; of every two parties' `norms_cost` together. Narrow rows are by transfers.

    Raises:
        CiphertextError, TransferError: a message is malformed; its sender is named.
    """
    rows, width = x.shape
    block = _block(rows, width)
    if block is None:
        squared = yield from squares(peers, x.reshape(-1))
        norms: Integers = squared.reshape(x.shape).sum(axis=-1)
        return norms
    parts = [x[start : start + block] for start in range(0, rows, block)]
    each = yield from together([_crossed_norms(peers, part) for part in parts])
    norms = (x * x).sum(axis=-1)
    norms += np.concatenate(each)
    return norms


def _crossed_norms(peers: Peers, x: Integers) -> Making[Integers]:
    """Returns shares of twice the products of each row's parts, of every two parties."""
    rights, shapes = dict.fromkeys(peers.others, x.T), [x.shape] * peers.parties
    found = yield from cross(peers, 2 * x, rights, shapes, len(x), _upwards)
    diagonals = [np.diagonal(each) for each in (*found.own.values(), *found.others.values())]
    total: Integers = np.sum(diagonals, axis=0)
    return total


def norms_cost(rows: int, width: int) -> tuple[int, int]:
    """Returns the transfers and the bytes of every two parties for `row_norms`."""
    block = _block(rows, width)
    if block is None:
        return RING_BITS * rows * width, (BIT_BYTES + PRODUCT_BYTES) * rows * width
    return 0, _norms_by_lattice(rows, width, block)


@lru_cache(maxsize=64)
def _block(rows: int, width: int) -> int | None:
    """Returns how many rows are multiplied at once; None if transfers cost fewer bytes."""
    blocks = [1 << power for power in range(6) if 1 << power <= rows]
    if not rows or not width:
        return None
    best = min(blocks, key=lambda block: _norms_by_lattice(rows, width, block))
    by_transfers = (BIT_BYTES + PRODUCT_BYTES) * rows * width
    return None if by_transfers <= _norms_by_lattice(rows, width, best) else best


def _norms_by_lattice(rows: int, width: int, block: int) -> int:
    whole, rest = divmod(rows, block)
    last = _by_lattice(rest, width, rest) if rest else 0
    return whole * _by_lattice(block, width, block) + last


def _upwards(left: int, right: int) -> bool:
    return left < right


def crossing_cost(shapes: Sequence[tuple[int, int]], columns: int) -> int:
    """Returns what all parties together send in `cross`, in bytes."""
    return (len(shapes) - 1) * _cheapest(tuple(shapes), columns).size


def cross(
    peers: Peers,
    left: Integers,
    rights: Mapping[int, Integers],
    shapes: Sequence[tuple[int, int]],
    columns: int,
    pairs: Pairs = all_pairs,
) -> Making[Crossed]:
    """Returns shares of each party's left matrix by each other one's right matrix for it.

    `left` has this party's shape of `shapes`, which are all parties', by rank. `rights` are for the
    left matrix of each other party, (its inner, columns). `pairs` says whose left matrix is
    multiplied by whose right one. It takes two rounds.
    """
    plans = _cheapest(tuple(shapes), columns)
    result = Crossed({}, {})

    def keep(other: int, share: Integers, is_left: bool) -> None:
        shaped = share[..., 0, 0]
        into = result.own if is_left else result.others
        into[other] = shaped if plans.encrypts_left else shaped.T

    # Of every two parties each encrypts for the other one: its left matrix, or its right one.
    asking, asked = (
        {
            other: plans.of(owner)
            for other, owner in owners.items()
            if not plans.is_empty(owner) and pairs(owner, peers.rank + other - owner)
        }
        for owners in _owners(peers, plans.encrypts_left)
    )
    sent = _requests(peers, left if plans.encrypts_left else None, rights, asking)
    came = yield Round(sent, {other: plan.cut.request_bytes(plan) for other, plan in asked.items()})
    answers = {}
    for other, plan in asked.items():
        factor = rights[other].T if plans.encrypts_left else left
        weights = np.ascontiguousarray(factor).reshape(plan.weight_shape)
        with told_by(other):
            multiplier = peers.others[other].multiplier
            answers[other], share = multiplier.multiply(plan, weights, came[other])
        keep(other, share, not plans.encrypts_left)
    sizes = {other: plan.cut.answer_bytes(plan) for other, plan in asking.items()}
    came = yield Round(answers, sizes)
    for other, plan in asking.items():
        with told_by(other):
            share = peers.owner.decrypt(plan, came[other])
        keep(other, share, plans.encrypts_left)
    return result


def _owners(peers: Peers, encrypts_left: bool) -> tuple[dict[int, int], dict[int, int]]:
    """Returns whose left matrix it is about where this party encrypts, and where others do."""
    own, others = dict.fromkeys(peers.others, peers.rank), {other: other for other in peers.others}
    return (own, others) if encrypts_left else (others, own)


def _requests(
    peers: Peers,
    left: Integers | None,
    rights: Mapping[int, Integers],
    asking: Mapping[int, Convolution],
) -> dict[int, bytes]:
    """Returns what this party encrypts for each other one; what is the same is encrypted once."""
    made: dict[tuple[int, Convolution], bytes] = {}
    requests = {}
    for other, plan in asking.items():
        matrix = rights[other] if left is None else left
        name = id(matrix), plan
        if name not in made:
            x = matrix.T if left is None else matrix
            shaped = np.ascontiguousarray(x).reshape(plan.input_shape)
            made[name] = peers.owner.encrypt(plan, shaped)
        requests[other] = made[name]
    return requests


@lru_cache(maxsize=256)
def _cheapest(shapes: tuple[tuple[int, int], ...], columns: int) -> _Plans:
    both = (_Plans(left, shapes, columns) for left in (False, True))
    return min(both, key=lambda plans: plans.size)


def _plan(rows: int, inner: int, columns: int, encrypts_left: bool) -> Convolution:
    outer = (rows, columns) if encrypts_left else (columns, rows)
    return matrices(outer[0], inner, outer[1], weight_bits=RING_BITS, flooding=FLOODING)


def _by_transfers(rows: int, inner: int, columns: int) -> int:
    return rows * inner * (BIT_BYTES + columns * PRODUCT_BYTES)


def _by_lattice(rows: int, inner: int, columns: int) -> int:
    return _cheapest(((rows, inner),), columns).size
