"""One turn of a data owner: steps that it and the model's owner make over one connection.

Before each step either of them may end the turn. The data owner does so when its budget is spent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

import crypten_ext
from crypten_ext import dealer
from crypten_ext.pairwise.rounds import run
from crypten_ext.pencil.account import Account
from crypten_ext.pencil.model import Model
from crypten_ext.pencil.ring import Inputs, PencilRing, Weight
from crypten_ext.pencil.terms import MESSAGE_BYTES, Offer, Terms
from extensions.errors import ArgumentError, PeaError
from extensions.privacy.randomness import SystemSource
from extensions.privacy.sampling import OwnRecords, draw_rows
from extensions.protocols.dpsgd_plan import StepPlan
from extensions.protocols.host import Batch, part_of
from extensions.protocols.pencil.step import encoded_layer, noisy_sums
from extensions.ring.fixed_point import Integers, Reals, decode
from extensions.ring.interface import NoiseSource
from extensions.two_party import Making, Round, products

import crypten
from crypten import communicator

_GO, _STOP, _OVER = b"g", b"s", b"o"


class NoNoise:
    """What the model's owner adds to the data owner's noise: nothing."""

    def gaussian(self, party: int, scale: float, shape: tuple[int, ...]) -> Integers:
        """Returns zeros."""
        return np.zeros(shape, dtype=np.int64)

    def bernoulli(self, party: int, probability: float, size: int) -> Any:
        """The model's owner draws no records."""
        raise NotImplementedError


@dataclass(frozen=True)
class TurnResult:
    """How a turn ended: steps made, whether training is over, and whether the budget is spent."""

    steps: int
    over: bool
    spent: bool


@contextmanager
def joint_ring(frac_bits: int) -> Iterator[PencilRing]:
    """Yields the ring of the two parties who have met, and make their tuples themselves in it."""
    crypten_ext.enable()
    with crypten.cfg.temp_override({"mpc.provider": "PARTIES"}):
        yield PencilRing(frac_bits)


def lead(model: Model, steps: int, *, last: bool = False) -> tuple[TurnResult, Offer]:
    """Returns how a turn ended in which the model learned, in at most `steps`, from one data owner.

    After the `last` turn the data owner is told that it was.

    Raises:
        ArgumentError: the data owner does not take part, and says why; weights beyond their bound.
        PartyLostError: the data owner is lost.
    """
    _check_parties(products.MODEL)
    terms = model.terms
    offer = Offer.unpack(_exchanged(products.DATA, terms.pack(), MESSAGE_BYTES))
    if offer.problem:
        raise ArgumentError("terms", "refused by the data owner", "accepted by it", offer.problem)
    plan, made, theirs = terms.plan(offer), 0, _GO
    with joint_ring(terms.frac_bits) as ring:
        while True:
            model.check()  # or the data owner would be charged for a step that cannot be made
            own = _GO if made < steps else _OVER if last else _STOP
            theirs = _exchanged(products.DATA, own, 1)
            if own != _GO or theirs != _GO:
                return TurnResult(made, own == _OVER, theirs != _GO), offer
            sums = _step(ring, plan, terms, model.layers, None, NoNoise())
            assert sums is not None
            model.learn(sums, offer.expected)
            made += 1


def follow(
    records: Callable[[Terms], OwnRecords],
    account: Account,
    source: NoiseSource | None = None,
    progress: Callable[[int], None] = lambda made: None,
) -> TurnResult:
    """Returns how a turn ended in which a model learned from this party's records.

    Args:
        records: returns them for the stated terms, or raises ArgumentError.
        account: of what that may cost them.
        source: of sampling and noise; by default the operating system's.
        progress: called with the number of steps charged so far.

    Guarantees:
        The model's owner learns only noised sums, each charged on disk before it is told; after the
        last one that the budget allows there is none.

    Raises:
        ArgumentError: the terms do not fit the records, or the ledger's cap does not allow the
            run; the model's owner is told so too.
        PartyLostError: the model's owner is lost.
    """
    _check_parties(products.DATA)
    source = source or SystemSource()
    terms, own, plan = _agreed(records, account)
    made, rate = 0, account.budget.sample_rate
    shapes = [((m, n), (m,)) for m, n in terms.network.parameter_shapes]
    with joint_ring(terms.frac_bits) as ring:
        while True:
            mine = _GO if account.left else _STOP
            theirs = _exchanged(products.MODEL, mine, 1)
            if mine != _GO or theirs != _GO:
                return TurnResult(made, theirs == _OVER, mine != _GO)
            rows = draw_rows(
                own, party=products.DATA, sample_rate=rate, rows=plan.rows, source=source
            )
            account.charge()
            _step(ring, plan, terms, shapes, [*rows], source)
            made += 1
            progress(account.made)


def _agreed(
    records: Callable[[Terms], OwnRecords], account: Account
) -> tuple[Terms, OwnRecords, StepPlan]:
    """Returns what the model's owner states, once it was told what this party offers."""
    offer = account.offer(account.capacity)
    came = _exchanged(products.MODEL, b"", MESSAGE_BYTES)
    problem = "It cannot keep these terms."
    try:
        terms = Terms.unpack(came)
        offer = account.offer(terms.in_pieces(account.capacity))
        plan = terms.plan(offer)
        problem = "They do not fit its records."  # the error itself may tell of a record
        found = terms, records(terms), plan
        problem = "The reason is in its output."  # nobody else is told what its ledger says
        account.reserve()
    except PeaError:
        _exchanged(products.MODEL, replace(offer, problem=problem).pack(), 0)
        raise
    _exchanged(products.MODEL, offer.pack(), 0)
    return found


def _step(
    ring: PencilRing,
    plan: StepPlan,
    terms: Terms,
    layers: Sequence[tuple[Any, Any]],
    own: Sequence[Integers] | None,
    source: NoiseSource,
) -> list[Reals] | None:
    """Returns the noised sums at the model's owner, who gives its layers; None to the other.

    The data owner gives its rows, and only the shapes of the layers.
    """
    parameters = [_parameters(pair, terms.frac_bits) for pair in layers]
    pieces = _pieces(terms, plan.rows, own)
    parts = noisy_sums(ring, terms.network, plan, parameters, pieces, source)
    opened = ring.run(products.told_to_model(ring.rank, [part.numpy() for part in parts]))
    if opened is None:
        return None
    return [decode(part, terms.frac_bits + plan.factor_bits) for part in opened]


def _parameters(pair: tuple[Any, Any], frac_bits: int) -> Any:
    weight, bias = pair
    if isinstance(weight, tuple):
        return Weight(weight, None), torch.zeros(bias, dtype=torch.int64)
    words, own = encoded_layer(weight, bias, frac_bits)
    return Weight(words.shape, words), torch.from_numpy(own)


def _pieces(terms: Terms, rows: int, own: Sequence[Integers] | None) -> Iterator[Batch]:
    """Yields the rows, all of which the data owner has; the other party's shares are zeros.

    Each piece asks for the tuples that the one before did, and is a step to their maker.
    """
    count = -(-rows // terms.piece)
    for i in range(count):
        part = part_of(rows, i, count)
        size = part.stop - part.start
        shapes = (size, terms.features), (size, terms.classes), (size,), (size,)
        held = [np.zeros(shape, dtype=np.int64) for shape in shapes]
        if own is not None:
            held = [np.ascontiguousarray(each[part]) for each in own]
        x, y, norms, padding = map(torch.from_numpy, held)
        dealer.begin_step()
        yield Batch(Inputs(x, whole=True), y, norms, padding)


def _check_parties(rank: int) -> None:
    world = communicator.get()
    if (world.get_world_size(), world.get_rank()) != (2, rank):
        given = f"party {world.get_rank()} of {world.get_world_size()}"
        allowed = f"party {rank} of 2: the model's owner is the first"
        raise ArgumentError("federation", given, allowed)


def _exchanged(other: int, message: bytes, size: int) -> bytes:
    """Returns the `size` bytes that the other party says at the same time."""

    def both() -> Making[bytes]:
        came = yield Round({other: message}, {other: size})
        return came[other]

    return run(both(), communicator.get().main_group)
