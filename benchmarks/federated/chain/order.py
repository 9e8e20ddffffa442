"""(10) and (11): what clients and server compute with each way to protect updates."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import mean, median
from typing import Any

import numpy as np

import fl
from benchmarks.federated.chain.parties import Timed

CLIENTS = 10
VALUES = 199_210
"""Of the MLP."""
REPEATS = 3
EPSILON, CLIP = 8.0, 1.0


@dataclass(frozen=True, kw_only=True)
class Way:
    """A way to protect updates.

    Attributes:
        title: what the table calls it.
        aggregator: makes the aggregator, once for all repeats: keys are dealt before they count.
        mechanism: of clients.
        repeats: rounds that are measured.
    """

    title: str
    aggregator: Callable[[], fl.Aggregator]
    mechanism: Callable[[], fl.Mechanism] = fl.Mechanism
    repeats: int = REPEATS


def _noise(kind: str) -> Callable[[], fl.Mechanism]:
    if kind == "laplace":
        return lambda: fl.LocalDP(epsilon=EPSILON, clip=CLIP, noise="laplace")
    return lambda: fl.LocalDP(epsilon=EPSILON, clip=CLIP, delta=1e-5)


WAYS = (
    Way(title="FedAvg", aggregator=fl.PlainAggregator),
    Way(title="chain", aggregator=fl.ChainAggregator),
    Way(title="DP, Gaussian", aggregator=fl.PlainAggregator, mechanism=_noise("gaussian")),
    Way(title="DP, Laplace", aggregator=fl.PlainAggregator, mechanism=_noise("laplace")),
    Way(title="masked", aggregator=fl.MaskedAggregator),
    Way(title="HE, Paillier 2048", aggregator=fl.PaillierAggregator, repeats=1),
)


def rows(clients: int = CLIENTS, values: int = VALUES) -> list[dict[str, Any]]:
    """Returns for each way the processor seconds of a client beside training, and of the server."""
    found = []
    for way in WAYS:
        aggregator, mechanism = way.aggregator(), way.mechanism()
        if isinstance(aggregator, fl.PaillierAggregator):
            _once(aggregator, mechanism, clients, 1)  # which deals the key
        measured = [_once(aggregator, mechanism, clients, values) for _ in range(way.repeats)]
        local, total = (median(one[place] for one in measured) for place in (0, 1))
        found.append({"way": way.title, "client, CPU s": local, "server, CPU s": total})
    return found


def _once(
    aggregator: fl.Aggregator, mechanism: fl.Mechanism, clients: int, values: int
) -> tuple[float, float]:
    """Returns the mean of the clients' seconds, from update to last message, and the server's."""
    round = fl.Round(number=1, size=values, weights=dict.fromkeys(range(clients), 1))
    draws = np.random.default_rng(0)
    machines: dict[fl.Party, Timed] = {fl.SERVER: Timed(aggregator.server(round))}
    before = {}
    for client in round.clients:
        update = draws.uniform(-1e-3, 1e-3, values)
        began = time.process_time()
        protected = mechanism.client(update, round, client)
        inner = aggregator.client(round, client, protected)
        before[client] = time.process_time() - began
        machines[client] = Timed(inner)
    fl.InProcessTransport(transcript="none").run(machines)
    own = mean(machines[client].seconds + before[client] for client in round.clients)
    return own, machines[fl.SERVER].seconds
