"""One aggregation by clients that train first: its time on the virtual clock."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

import fl
from fl.protocols import SERVER, Aggregator, Machine, Message, Output, Party, Round, Timer
from fl.simulation import InProcessTransport, Network

PATIENCE = 1e6
"""Seconds of the virtual clock after which parties would be taken for lost."""
_SMALL = fl.FixedPoint(bits=32, frac_bits=20, clip=8.0)


@dataclass(frozen=True, kw_only=True)
class Scheme:
    """A way to aggregate.

    Attributes:
        title: what tables call it.
        make: its aggregator.
        in_turn: whether clients act one after the other, in a random order.
        most: clients for which it can be run in a short time.
    """

    title: str
    make: Callable[[], Aggregator]
    in_turn: bool = False
    most: int = 10**6


def _chain(point: fl.FixedPoint | None = None, chains: int = 1, edges: int = 0) -> Aggregator:
    return fl.ChainAggregator(
        point, chains=chains, edges=edges, time_limit=PATIENCE, timeout=PATIENCE
    )


SCHEMES = (
    Scheme(title="plain", make=lambda: fl.PlainAggregator(timeout=PATIENCE)),
    Scheme(title="one chain", make=_chain, in_turn=True),
    Scheme(title="one chain, 32 bits", make=lambda: _chain(_SMALL), in_turn=True),
    Scheme(title="4 chains", make=lambda: _chain(chains=4), in_turn=True),
    Scheme(
        title="4 chains, 2 edge nodes",
        make=lambda: _chain(chains=4, edges=2),
        in_turn=True,
    ),
    Scheme(title="masked", make=lambda: fl.MaskedAggregator(timeout=PATIENCE)),
    Scheme(title="Paillier", make=lambda: fl.PaillierAggregator(timeout=PATIENCE), most=10),
)


class Trained(Machine):
    """A party that does nothing until its training ends; messages are kept until then.

    Args:
        inner: its part of the protocol.
        seconds: of its training.
    """

    def __init__(self, inner: Machine, seconds: float) -> None:
        super().__init__(inner.round, inner.party)
        self._inner = inner
        self._seconds = seconds
        self._early: list[Message] | None = []

    def start(self, now: float) -> Iterable[Output]:
        """Yields the end of training to wait for."""
        yield Timer("trained", now + self._seconds)

    def receive(self, message: Message, now: float) -> Iterable[Output]:
        """Yields what the protocol does with the message, once trained."""
        if self._early is not None:
            self._early.append(message)
        else:
            yield from self._inner.receive(message, now)

    def expire(self, timer: str, now: float) -> Iterable[Output]:
        """Yields what the protocol does, with all that came before."""
        if self._early is None:
            yield from self._inner.expire(timer, now)
            return
        early, self._early = self._early, None
        yield from self._inner.start(now)
        for message in early:
            yield from self._inner.receive(message, now)


@dataclass(frozen=True, kw_only=True)
class Latency:
    """What one aggregation took.

    Attributes:
        measured: seconds of the virtual clock, which knows training and transfers alone.
        megabytes: sent by anybody to anybody.
        cpu: seconds of processor time of all parties, who share a process.
    """

    measured: float
    megabytes: float
    cpu: float


def measure(scheme: Scheme, network: Network, training: Mapping[int, float], size: int) -> Latency:
    """Returns the latency of one aggregation of so many values, after those seconds of training."""
    began = time.process_time()
    outcome = InProcessTransport(network).run(machines_of(scheme, training, size))
    cpu = time.process_time() - began
    return Latency(
        measured=outcome.seconds,
        megabytes=outcome.transcript.bytes() / 1e6,
        cpu=cpu,
    )


def machines_of(scheme: Scheme, training: Mapping[int, float], size: int) -> dict[Party, Machine]:
    """Returns all parties of one aggregation, whose clients train first."""
    aggregator = scheme.make()
    round = Round(number=1, size=size, weights=dict.fromkeys(training, 1))
    update = np.random.default_rng(0).uniform(-1.0, 1.0, size)
    machines: dict[Party, Machine] = {SERVER: aggregator.server(round)}
    machines |= aggregator.others(round)
    for client, seconds in training.items():
        machines[client] = Trained(aggregator.client(round, client, update), seconds)
    return machines
