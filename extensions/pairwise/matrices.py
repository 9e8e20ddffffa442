"""Products of matrices that are shared additively: each two parties' by lattice encryption.

Of a product x w what one party has of x is multiplied by what another one has of w. One of the two
encrypts its part, the other one multiplies (`extensions.lattice.product`): as costs fewer bytes.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from extensions.lattice.plan import Convolution, matrices
from extensions.pairwise.peers import FLOODING, Peers, told_by
from extensions.pairwise.rounds import Making, Round
from extensions.pairwise.words import BIT_BYTES, PRODUCT_BYTES, times_words
from extensions.ring.fixed_point import RING_BITS, Integers
from extensions.ring.integer_matmul import matmul


class Crossed(NamedTuple):
    """This party's shares of products with others, by rank.

    Attributes:
        own: of its left matrix by another's right one.
        others: of another's left one by its right one.
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


def crossing_cost(shapes: Sequence[tuple[int, int]], columns: int) -> int:
    """Returns what all parties together send in `cross`, in bytes."""
    return (len(shapes) - 1) * _cheapest(tuple(shapes), columns).size


def cross(
    peers: Peers,
    left: Integers,
    rights: Mapping[int, Integers],
    shapes: Sequence[tuple[int, int]],
    columns: int,
) -> Making[Crossed]:
    """Returns shares of each party's left matrix by each other one's right matrix for it.

    Args:
        peers: this party's end.
        left: this party's, of the shape that it has in `shapes`.
        rights: for the left matrix of each other party, (its inner, columns).
        shapes: of all left matrices, by rank.
        columns: of the right ones.

    Cost:
        Two rounds.
    """
    plans = _cheapest(tuple(shapes), columns)
    result = Crossed({}, {})

    def keep(other: int, share: Integers, is_left: bool) -> None:
        shaped = share[..., 0, 0]
        into = result.own if is_left else result.others
        into[other] = shaped if plans.encrypts_left else shaped.T

    # Of every two parties each encrypts for the other one: its left matrix, or its right one.
    asking, asked = (
        {other: plans.of(owner) for other, owner in owners.items() if not plans.is_empty(owner)}
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
