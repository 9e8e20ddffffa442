"""What a coalition that follows the protocol computes in a round on a sparse graph."""

from collections.abc import Iterator, Mapping, Set

import numpy as np

from fl.masked.sparse.graph import Graph
from fl.round.aggregator import Leaks
from fl.round.messages import SERVER
from fl.round.view import Coalition, Outcome, Transcript


def graph_of(transcript: Transcript) -> Graph:
    """Returns who holds shares of whom, of the clients that the server told each other's keys."""
    holders: dict[int, list[int]] = {}
    told = [m.message for m in transcript if (m.message.sender, m.message.kind) == (SERVER, "keys")]
    for message in told:
        holders.setdefault(message.receiver, [])
    for message in told:
        met = message.clients("clients")
        flags = message.array("draws_you", np.uint8, (len(met),))
        for dealer, flag in zip(met, flags.tolist(), strict=True):
            if flag:
                holders[dealer].append(message.receiver)
    return Graph({client: sorted(some) for client, some in holders.items()})


def sums_known(coalition: Coalition, outcome: Outcome, needed: int) -> Leaks:
    """Returns the sets of honest clients whose sums server and colluders know.

    Of a client that dropped out the server has the mask key, of a survivor the seed; with as many
    shares as are needed the colluders have both. What is left are parts of the graph of honest
    clients which unknown masks connect: a part has a known sum if it has no unknown seed.
    """
    transcript = outcome.transcript
    graph = graph_of(transcript)
    holding = {c for c in coalition.clients if transcript.received(c, "keys")}
    read = {c for c in graph.holders if len(holding.intersection(graph.holders[c])) >= needed}
    dealt = {m.message.receiver for m in transcript if m.message.kind == "sealed"}
    seeds, bare = read | set(outcome.included), read | (dealt - set(outcome.included))
    bare |= coalition.clients
    masked = {m.sender for m in transcript.received(SERVER, "masked")} - coalition.clients
    linked = {
        client: set() if client in bare else (graph.neighbours[client] & dealt) - bare
        for client in masked
    }
    return frozenset(part for part in _parts(linked) if part <= seeds)


def _parts(linked: Mapping[int, Set[int]]) -> Iterator[frozenset[int]]:
    """Yields the parts of a graph; one that is linked to a client beyond it has that as well."""
    left = set(linked)
    while left:
        part, ahead = set(), [left.pop()]
        while ahead:
            client = ahead.pop()
            part.add(client)
            ahead += linked.get(client, frozenset()) - part
        left -= part
        yield frozenset(part)
