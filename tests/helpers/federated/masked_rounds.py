"""Rounds of masked aggregation for the tests, honest ones and others."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

import fl
from fl.masked.sparse.degrees import Degree
from fl.protocols import SERVER, Machine, Message, Outcome, Output, Round, Value, Vector
from fl.simulation import InProcessTransport

SMALL = fl.FixedPoint(bits=32, frac_bits=16, clip=4.0)


def half() -> fl.MaskedAggregator:
    """Returns an aggregator that needs more than half of the clients."""
    return fl.MaskedAggregator(threshold=0.5, fixed_point=SMALL, timeout=7.0)


@dataclass(frozen=True, kw_only=True)
class Small(fl.SparseGraph):
    """A graph that is sparse among few clients, and safe against fewer than `shares` of them."""

    neighbours: int = 4
    shares: int = 3

    def degree(self, clients: int, cohort: int, corrupted: int, staying: int) -> Degree:
        return Degree(neighbours=min(self.neighbours, clients - 1), needed=self.shares)


def sparse(neighbours: int = 4, shares: int = 3) -> fl.MaskedAggregator:
    """Returns an aggregator that needs more than half of the clients, on a small sparse graph."""
    graph = Small(neighbours=neighbours, shares=shares, corrupt=0.0)
    return fl.MaskedAggregator(threshold=0.5, fixed_point=SMALL, timeout=7.0, graph=graph)


def updates(clients: int, size: int = 5) -> dict[int, Vector]:
    draws = np.random.default_rng(clients).uniform(-4.0, 4.0, size=(clients, size))
    return dict(enumerate(draws))


def expected(
    aggregator: fl.MaskedAggregator,
    given: Mapping[int, Vector],
    included: Iterable[int],
) -> Vector:
    """Returns what the exact sum in the ring decodes to: client k weighs k + 1."""
    fixed, included = aggregator.fixed_point, tuple(included)
    total = np.zeros(given[0].size, dtype=fixed.dtype)
    for client in included:
        total += fixed.encode(given[client], client + 1)
    return fixed.decode(total, sum(client + 1 for client in included))


def run(
    aggregator: fl.MaskedAggregator,
    given: Mapping[int, Vector],
    change: Callable[[dict[int, Machine]], None] = lambda machines: None,
    **transport: object,
) -> tuple[Outcome, dict[int, Machine]]:
    """Returns the outcome of a round, and its machines with all their secrets."""
    size = given[0].size
    round = Round(number=1, size=size, weights={client: client + 1 for client in given})
    machines: dict[int, Machine] = {SERVER: aggregator.server(round)}
    for client, update in given.items():
        machines[client] = aggregator.client(round, client, update)
    change(machines)
    return InProcessTransport(**transport).run(machines), machines  # type: ignore[arg-type]


def check_exact(
    aggregator: fl.MaskedAggregator,
    given: Mapping[int, Vector],
    outcome: Outcome,
    included: Iterable[int],
) -> None:
    assert outcome.included == tuple(included)
    np.testing.assert_array_equal(
        outcome.aggregate.mean, expected(aggregator, given, outcome.included)
    )


class Tampering(Machine):
    """A machine whose messages of one kind are changed before they leave."""

    def __init__(
        self,
        inner: Machine,
        kind: str,
        change: Callable[[Message], list[Message]],
    ) -> None:
        super().__init__(inner.round, inner.party)
        self.inner, self.kind, self.change = inner, kind, change

    def start(self, now: float) -> Iterable[Output]:
        yield from self.changed(self.inner.start(now))

    def receive(self, message: Message, now: float) -> Iterable[Output]:
        yield from self.changed(self.inner.receive(message, now))

    def expire(self, timer: str, now: float) -> Iterable[Output]:
        yield from self.changed(self.inner.expire(timer, now))

    def changed(self, outputs: Iterable[Output]) -> Iterable[Output]:
        for output in outputs:
            if isinstance(output, Message) and output.kind == self.kind:
                yield from self.change(output)
            else:
                yield output


def altered(message: Message, **body: Value) -> Message:
    changed = {**message.body, **body}
    return Message(
        round=1, sender=message.sender, receiver=message.receiver, kind=message.kind, body=changed
    )


def tamper(kind: str, change: Callable[..., object], *parties: int):
    """Returns what makes parties send `change(message, machines)` instead, one or several."""

    def apply(machines: dict[int, Machine]) -> None:
        inner = dict(machines)

        def listed(message: Message) -> list[Message]:
            changed = change(message, inner)
            return changed if isinstance(changed, list) else [changed]

        for party in parties:
            machines[party] = Tampering(inner[party], kind, listed)

    return apply
