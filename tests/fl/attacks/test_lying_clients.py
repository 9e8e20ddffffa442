"""What one client reads that lies, without the server."""

from collections.abc import Iterator

import numpy as np
import pytest

import fl
from fl.chain.complaint import Complaint
from fl.protocols import Message
from fl.round.machines import Machine, Output
from tests.helpers.federated.attackers import (
    AGGREGATORS,
    CLIENTS,
    FIXED,
    UNIT,
    WEIGHTS,
    play,
)
from tests.helpers.federated.carriers import CARRIERS
from tests.helpers.federated.masked_rounds import altered, tamper

LIAR = 2


class Complainer(Machine):
    """A client of a chain that calls the first token false, and keeps it."""

    def __init__(self, inner: Machine) -> None:
        super().__init__(inner.round, inner.party)
        self.inner = inner
        self.kept: list[Message] = []

    def expire(self, timer: str, now: float) -> Iterator[Output]:
        yield from self.inner.expire(timer, now)

    def receive(self, message: Message, now: float) -> Iterator[Output]:
        if message.kind == "token":
            self.kept.append(message)
        if message.kind != "token" or len(self.kept) > 1 or not message.body["users"].size:
            yield from self.inner.receive(message, now)
            return
        users = message.clients("users")
        complaint = Complaint(
            culprit=message.sender, reason="a wrong tag", known=0, attempt=0, users=users
        )
        yield complaint.message(self)


def stolen() -> bool:
    """Returns whether the liar read the update of the client before it, from two tokens."""
    aggregator = fl.ChainAggregator(FIXED)
    liars: list[Complainer] = []

    def wrap(machines: dict[int, Machine]) -> None:
        liars.append(Complainer(machines[LIAR]))
        machines[LIAR] = liars[0]

    played = play(aggregator, weights={k: WEIGHTS[k] for k in range(3)}, change=wrap)
    kept = liars[0].kept
    if len(kept) != 2 or len({message.integer("mask") for message in kept}) != 1:
        return False
    first, second = ((set(m.clients("users")), m.body["values"]) for m in kept)
    if len(gone := first[0] - second[0]) != 1 or not second[0] < first[0]:
        return False
    (client,) = gone
    assert played.outcome is not None
    leaks = aggregator.leaks_to(fl.Coalition({LIAR}, lying=True), played.outcome)
    assert frozenset({client}) in leaks
    found = FIXED.decode(first[1] - second[1]) / WEIGHTS[client]
    np.testing.assert_allclose(found, played.updates[client], rtol=0, atol=UNIT)
    return True


@pytest.mark.parametrize("carrier", CARRIERS, indirect=True)
def test_client_that_complains_falsely_reads_the_update_of_the_one_before_it(carrier):
    """Of 3 clients it is the last in a third of all rounds: none of 60 with probability 3e-11."""
    assert any(stolen() for _ in range(60))


@pytest.mark.parametrize("carrier", CARRIERS, indirect=True)
def test_client_that_lies_about_shares_reads_nothing_and_is_named(carrier):
    """Tompa and Woll, J. Cryptology 1988: it says that it cannot open what it was dealt.

    Whom it accuses loses nothing: the others' shares are enough, and the client has its own alone.
    """
    others = frozenset(range(CLIENTS)) - {LIAR}

    def accuse(message: Message, machines: dict[int, Machine]) -> Message:
        return altered(message, unreadable=np.arange(CLIENTS))

    aggregator = AGGREGATORS["masked"]()
    played = play(aggregator, change=tamper("masked", accuse, LIAR), lying=False)
    assert played.outcome is not None
    assert played.outcome.included == tuple(range(CLIENTS))
    lying = fl.Coalition({LIAR}, lying=True)
    assert aggregator.leaks_to(lying, played.outcome) == {others}
