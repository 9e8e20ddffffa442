"""How many clients take part by Time_limit, and by the lists of neighbours."""

from collections.abc import Callable
from statistics import mean
from typing import Any

import numpy as np

import fl
from benchmarks.federated.links import simulated
from fl.round.latency import time_limit

CLIENTS, VALUES, BYTES = 50, 21_840, 8
PARTICIPANTS = (2, 5, 10, 25, 50)
ROUNDS = 20
COLUMNS = 10
"""Of the grid on which clients stand."""
PLACES = {k: (float(k % COLUMNS), float(k // COLUMNS)) for k in range(CLIENTS)}
RING = {k: [(k - 1) % CLIENTS, (k + 1) % CLIENTS] for k in range(CLIENTS)}


def _flooded(hops: int) -> Any:
    near = fl.neighbours.nearest(PLACES, 4)
    return fl.neighbours.flooded({k: near(k) for k in PLACES}, hops)


LISTS: dict[str, Callable[[], Any]] = {
    "everybody": lambda: None,
    "flooding, 1 hop of a grid": lambda: _flooded(1),
    "flooding, 3 hops of a grid": lambda: _flooded(3),
    "the 3 nearest": lambda: fl.neighbours.nearest(PLACES, 3),
    "the 10 nearest": lambda: fl.neighbours.nearest(PLACES, 10),
    "neighbours of neighbours, a ring": lambda: fl.neighbours.of_neighbours(RING),
}


def _networks() -> dict[str, fl.Network]:
    lan, wan = simulated("lan"), simulated("wan")
    return {
        "LAN": lan,
        "WAN": wan,
        "LAN between clients, WAN to the server": fl.Network(server=wan.server, peers=lan.peers),
    }


def limit_rows() -> list[dict[str, Any]]:
    """Returns for each network and number the published limit and how many then take part."""
    rows = []
    for links, network in _networks().items():
        for number in PARTICIPANTS:
            size = VALUES * BYTES
            limit = time_limit(number, (network.peers, size), (network.server, size))
            outcome = fl.aggregate(
                fl.ChainAggregator(time_limit=limit),
                {k: np.zeros(VALUES) for k in range(CLIENTS)},
                transport=fl.InProcessTransport(network, transcript="sizes"),
            )
            rows.append(
                {
                    "links": links,
                    "clients wanted": number,
                    "Time_limit, s": limit,
                    "take part": len(outcome.included),
                    "until the mean, s": outcome.seconds,
                }
            )
    return rows


def list_rows() -> list[dict[str, Any]]:
    """Returns for each kind of lists how many of the clients a chain reaches."""
    given = {k: np.zeros(1) for k in range(CLIENTS)}
    rows = []
    for title, make in LISTS.items():
        lists = make()
        sizes = [len(lists(k)) if lists else CLIENTS - 1 for k in given]
        reached = [
            len(fl.aggregate(fl.ChainAggregator(neighbours=lists), given).included)
            for _ in range(ROUNDS)
        ]
        rows.append(
            {
                "lists": title,
                "neighbours, mean": mean(sizes),
                "take part, mean": mean(reached),
                "take part, fewest": min(reached),
                "rounds": ROUNDS,
            }
        )
    return rows
