"""``python -m benchmarks fl-scale``: secure aggregation by clients, beside Flower's SecAgg+."""

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import mean
from typing import Annotated, Any

import numpy as np

from benchmarks.benchmark import FEDERATED, Benchmark, Result
from benchmarks.federated.scale.large import Setting
from benchmarks.instruments.child_process import in_python
from benchmarks.tables import Table
from extensions.options import Option
from extensions.rules import Whole
from fl.protocols import SERVER, Machine, Message, Output, Party
from fl.simulation import InProcessTransport

CLIENTS = (30, 300, 1000)
VALUES = 10_000
CORRUPT, DROPPING = 0.1, 0.2
SCRIPT = Path(__file__).with_name("flower_round.py")


@Benchmark(
    FEDERATED,
    "fl-scale",
    "Secure aggregation beside Flower's SecAgg+",
    minutes=12,
    needs="--flower-python for Flower's",
    results=[
        Result(
            "fl-scale(-.*)?",
            "A whole round of 10,000 values, beside "
            "Flower's functions without its engine, whose rounds of more than 80 clients have 80 "
            "of them. **A client of ours takes 14, 8 and 6 times less processor time at 30, 300 "
            "and 1,000 clients, and the server 120 to 170 times less**, on a graph for a server "
            "that lies, where Flower's is for one that follows the protocol.",
            options="--flower-python PYTHON --clients 30 --clients 300 --clients 1000 "
            "--flower-clients 80",
            columns="clients | way | neighbours | client, CPU s | server, CPU s | kB a client",
        )
    ],
)
def main(
    clients: Annotated[
        list[int] | None, Option(help="Numbers of clients; 30, 300 and 1000."), Whole(3)
    ] = None,
    values: Annotated[int, Option(help="Of an update."), Whole(1)] = VALUES,
    flower_python: Annotated[
        str | None, Option(help="A Python that has flwr; without one ours is run alone.")
    ] = None,
    flower_clients: Annotated[
        int | None,
        Option(
            help="Clients that Flower's round has at most, each with the neighbours of the whole "
            "one; its server's time is then put in proportion. By default all."
        ),
        Whole(3),
    ] = None,
) -> Iterator[Table]:
    """Processor time and bytes of a round by clients, on a sparse graph, beside Flower's SecAgg+.

    Nobody is lost. Flower gets as many shares and the threshold that ours has.
    """
    counts = sorted(set(clients or CLIENTS))
    rows = []
    for count in counts:
        neighbours, threshold = graph(count)
        rows.append(_row("ours", count, neighbours, threshold, ours(count, values), values))
        if flower_python is not None:
            shares = min(count, (neighbours + 1) | 1)  # its rings are of odd numbers
            few = min(count, max(shares, flower_clients or count))
            found = flower(flower_python, few, values, shares, threshold)
            found["server"] *= count / few
            way = "Flower SecAgg+" + (f", by {few} of them" if few < count else "")
            rows.append(_row(way, count, shares - 1, threshold, found, values))
    suffix = "" if clients is None else f"-{'-'.join(map(str, counts))}-clients"
    suffix += "" if values == VALUES else f"-{values}-values"
    settings = {"corrupt": CORRUPT, "dropping": DROPPING, "values": values}
    yield Table(f"fl-scale{suffix}", rows, **settings, load=os.getloadavg()[0])


class Timed(Machine):
    """A party whose processor time is measured.

    Args:
        inner: its part of the protocol.

    Attributes:
        seconds: of processor time that its part has taken.
    """

    def __init__(self, inner: Machine) -> None:
        super().__init__(inner.round, inner.party)
        self.inner = inner
        self.seconds = 0.0

    def _timed(self, outputs: Iterable[Output]) -> Iterator[Output]:
        """Yields the outputs; what is done between two of them counts, what others do does not."""
        began = time.process_time()
        for output in outputs:
            self.seconds += time.process_time() - began
            yield output
            began = time.process_time()
        self.seconds += time.process_time() - began

    def start(self, now: float) -> Iterator[Output]:
        """Yields what the party does of its own accord."""
        yield from self._timed(self.inner.start(now))

    def receive(self, message: Message, now: float) -> Iterator[Output]:
        """Yields what follows from a message."""
        yield from self._timed(self.inner.receive(message, now))

    def expire(self, timer: str, now: float) -> Iterator[Output]:
        """Yields what follows from a timer."""
        yield from self._timed(self.inner.expire(timer, now))


def setting_of(clients: int, values: int = VALUES) -> Setting:
    """Returns a round of so many clients."""
    return Setting(clients=clients, values=values, corrupt=CORRUPT, dropping=DROPPING)


def graph(clients: int) -> tuple[int, int]:
    """Returns how many neighbours a client has, and how many of them open its secrets."""
    one = setting_of(clients).aggregator()
    assert one.graph is not None
    needed = one.needed(clients)
    degree = one.graph.degree(clients, clients, one.siding(clients), needed)
    return (clients - 1, needed) if degree is None else (degree.neighbours, degree.needed)


def ours(clients: int, values: int) -> dict[str, float]:
    """Returns what a round takes; every party has terms of its own, and verifies for itself."""
    setting = setting_of(clients, values)
    one, round = setting.aggregator(), setting.round
    draws = np.random.default_rng(0)
    updates = draws.uniform(-1, 1, (clients, values))
    machines: dict[Party, Timed] = {SERVER: Timed(one.server(round))}
    for client in round.clients:
        one._latest = None  # no party has another one's checks
        machines[client] = Timed(one.client(round, client, updates[client]))
    outcome = InProcessTransport(transcript="none").run(machines)
    traffic = outcome.transcript
    return {
        "client": mean(machines[k].seconds for k in round.clients),
        "server": machines[SERVER].seconds,
        "bytes": traffic.bytes() / clients,
        "error": float(np.abs(outcome.aggregate.mean - updates.mean(axis=0)).max()),
    }


def flower(python: str, clients: int, values: int, shares: int, threshold: int) -> dict[str, float]:
    """Returns what a round of Flower's functions takes, in a process of that Python.

    Raises:
        ArgumentError: it has no flwr, or another one.
    """
    words = (str(SCRIPT), *map(str, (clients, values, shares, threshold)))
    found: dict[str, float] = in_python("flower_python", "flwr 1.42", python, *words)
    return found


def _row(
    way: str, clients: int, neighbours: int, threshold: int, found: dict[str, float], values: int
) -> dict[str, Any]:
    return {
        "clients": clients,
        "way": way,
        "neighbours": neighbours,
        "threshold": threshold,
        "client, CPU s": found["client"],
        "server, CPU s": found["server"],
        "all, CPU s": found["client"] * clients + found["server"],
        "kB a client": found["bytes"] / 1000,
        "of them not values": (found["bytes"] - values * 4) / 1000,
        "largest error": found["error"],
    }
