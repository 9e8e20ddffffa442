"""What one client reads that lies, without the server."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

import fl
from fl.chain.complaint import Complaint
from fl.round.machines import Machine, Output
from tests.helpers.federated.masked_rounds import SMALL, half, run, updates

LIAR = 2


class Complainer(Machine):
    """A client of a chain that calls the first token false, and keeps it."""

    def __init__(self, inner: Machine) -> None:
        super().__init__(inner.round, inner.party)
        self.inner = inner
        self.kept: list[fl.Message] = []

    def receive(self, message: fl.Message, now: float) -> Iterator[Output]:
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


def stolen(aggregator: fl.ChainAggregator, given: dict[int, fl.Vector]) -> dict[int, fl.Vector]:
    """Returns what the liar computes from two tokens under one mask, by client."""
    round = fl.Round(number=1, size=5, weights=dict.fromkeys(given, 1))
    machines: dict[int, Machine] = {fl.SERVER: aggregator.server(round)}
    machines |= {k: aggregator.client(round, k, update) for k, update in given.items()}
    liar = machines[LIAR] = Complainer(machines[LIAR])
    outcome = fl.InProcessTransport().run(machines)
    found = {}
    if len(liar.kept) == 2:
        first, second = ((set(m.clients("users")), m.body["values"]) for m in liar.kept)
        masks = {m.integer("mask") for m in liar.kept}
        if len(masks) == 1 and len(gone := first[0] - second[0]) == 1 and second[0] < first[0]:
            found = {gone.pop(): SMALL.decode(first[1] - second[1])}
            leaks = aggregator.leaks_to(fl.Coalition({LIAR}, lying=True), outcome)
            assert {frozenset({k}) for k in found} <= leaks
    return found


def test_client_that_complains_falsely_reads_the_update_of_the_one_before_it():
    """Of 3 clients it is the last in a third of all rounds: none of 60 with probability 3e-11."""
    aggregator, given = fl.ChainAggregator(SMALL), updates(3)
    for _ in range(60):
        for client, update in stolen(aggregator, given).items():
            np.testing.assert_allclose(update, given[client], rtol=0, atol=2.0**-16)
            return
    pytest.fail("no round in which the liar was last")


def test_client_that_lies_about_shares_reads_nothing_and_is_named():
    """Tompa and Woll, J. Cryptology 1988: it says that it cannot open what it was dealt.

    Whom it accuses loses nothing: the others' shares are enough, and the client has its own alone.
    """
    aggregator, given = half(), updates(6)
    accused = np.arange(6)

    def accuse(machines: dict[int, Machine]) -> None:
        inner = machines[LIAR].receive

        def receive(message: fl.Message, now: float) -> Iterator[Output]:
            for output in inner(message, now):
                if isinstance(output, fl.Message) and output.kind == "masked":
                    body = {**output.body, "unreadable": accused}
                    output = replace(output, body=body)
                yield output

        machines[LIAR].receive = receive  # type: ignore[method-assign]

    outcome, _ = run(aggregator, given, accuse)
    assert outcome.included == tuple(range(6))
    lying = fl.Coalition({LIAR}, lying=True)
    assert aggregator.leaks_to(lying, outcome) == {frozenset({0, 1, 3, 4, 5})}
