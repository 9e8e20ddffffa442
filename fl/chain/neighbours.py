"""Lists of the clients that each can reach, for chains: made as networks of three kinds make them.

A chain goes on with a random neighbour that it has not visited; where there is none, its holder
returns it. So lists decide how many clients a round reaches, and `ChainAggregator` leaves out the
others by name.

Source:
    Li et al., IEEE IoT J. 8(8), 2021, section III-B, which leaves the lists to others: flooding in
    a LAN, cells of a mobile network, lists of neighbours' neighbours between peers.
"""

import math
from collections.abc import Collection, Mapping

from extensions.errors import ArgumentError
from extensions.rules import Whole
from fl.chain.client import Neighbours


def flooded(links: Mapping[int, Collection[int]], hops: int) -> Neighbours:
    """Returns lists of all clients that a message reaches in so many hops over links.

    Args:
        links: from each client to those that it has a link to.
        hops: after which a message is not passed on, at least 1.

    Raises:
        ArgumentError: no hop, or a link to a client that is not in `links`.
    """
    Whole(1).check("hops", hops)
    if unknown := {k for own in links.values() for k in own} - links.keys():
        raise ArgumentError("links", sorted(unknown), f"among clients {sorted(links)}")

    def reached(client: int) -> Collection[int]:
        found = {client}
        for _ in range(hops):
            found |= {k for one in found for k in links.get(one, ())}
        return found - {client}

    return reached


def nearest(places: Mapping[int, tuple[float, float]], number: int) -> Neighbours:
    """Returns lists of the clients nearest to each, as in a cell of a mobile network.

    Args:
        places: of the clients, in a plane.
        number: of neighbours, at least 1; of clients as far away the lowest-numbered.

    Raises:
        ArgumentError: fewer than one, or as many as there are clients.
    """
    Whole(1, len(places) - 1).check("number", number)

    def near(client: int) -> Collection[int]:
        others = [k for k in places if k != client]
        return sorted(others, key=lambda k: (math.dist(places[client], places[k]), k))[:number]

    return near


def of_neighbours(lists: Mapping[int, Collection[int]]) -> Neighbours:
    """Returns each client's own list with those of the clients in it, as peers exchange them.

    Raises:
        ArgumentError: a list has a client that has none.
    """
    return flooded(lists, 2)
