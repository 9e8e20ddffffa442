"""Graphs of a round: who holds shares of whom, and who has masks with whom."""

import secrets
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True, eq=False)
class Graph:
    """Who holds shares of whom: the holders of each client's, in ascending order."""

    holders: Mapping[int, Sequence[int]]

    @cached_property
    def dealers(self) -> Mapping[int, Sequence[int]]:
        """Of the shares that each client holds, in ascending order."""
        found: dict[int, list[int]] = {client: [] for client in self.holders}
        for dealer in sorted(self.holders):
            for holder in self.holders[dealer]:
                found[holder].append(dealer)
        return found

    @cached_property
    def neighbours(self) -> Mapping[int, frozenset[int]]:
        """Those with whom each client has masks: holders and dealers."""
        return {
            client: frozenset(holders).union(self.dealers[client])
            for client, holders in self.holders.items()
        }

    def row(self, dealer: int, holder: int) -> int:
        """Returns the place of a holder among those of the dealer."""
        return bisect_left(self.holders[dealer], holder)

    def among(self, clients: Collection[int]) -> "Graph":
        """Returns the graph without all other clients."""
        left = set(clients)
        return Graph({c: [h for h in self.holders[c] if h in left] for c in clients})


def drawn(client: int, clients: Iterable[int], number: int) -> tuple[int, ...]:
    """Returns so many other clients in ascending order, drawn by the operating system."""
    others = [other for other in clients if other != client]
    return tuple(sorted(secrets.SystemRandom().sample(others, number)))
