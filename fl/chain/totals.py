"""The unmasked sums that the server has, and the totals that edge nodes still owe it."""

from collections.abc import Sequence
from functools import reduce

import numpy as np

from fl.chain.state import ChainState
from fl.round.machines import Aggregate, Round
from fl.round.messages import Party
from fl.round.quantization import FixedPoint, RingVector


class Totals:
    """The sums of a round that have arrived and those that are due.

    Args:
        chains: all chains of the round.
    """

    def __init__(self, chains: Sequence[ChainState]) -> None:
        self._chains = chains
        self._owing: set[Party] = set()
        self._sums: list[RingVector] = []
        self._added: list[ChainState] = []

    def add(self, values: RingVector, chains: Sequence[ChainState]) -> None:
        """Subtracts the masks of the chains from their masked sum, and keeps the result."""
        masks = [chain.mask for chain in chains if chain.mask is not None]
        self._sums.append(reduce(np.subtract, masks, values))
        self._added += chains

    def ask(self, edge: Party) -> list[tuple[int, int, int]]:
        """Returns the sums that an edge node has to add, as (chain, attempt, sender).

        Empty until all of its chains have ended, and if none of them returned a sum.
        """
        if not all(chain.settled for chain in self._chains if chain.collector == edge):
            return []
        wanted = [(chain.number, chain.attempt, chain.path[-1]) for chain in self._held(edge)]
        if wanted:
            self._owing.add(edge)
        return wanted

    def owes(self, party: Party) -> bool:
        """Returns whether the party is an edge node that was asked for its total."""
        return party in self._owing

    def merge(self, edge: Party, values: RingVector) -> None:
        """Keeps the total of an edge node."""
        self._owing.remove(edge)
        self.add(values, self._held(edge))

    def lose(self, edge: Party) -> list[int]:
        """Gives up the total that an edge node owes, and returns the clients in it."""
        self._owing.remove(edge)
        return [client for chain in self._held(edge) for client in chain.path]

    def complete(self) -> bool:
        """Returns whether every chain has ended and no edge node owes a total."""
        return not self._owing and all(chain.settled for chain in self._chains)

    def aggregate(self, round: Round, fixed_point: FixedPoint) -> Aggregate | None:
        """Returns the mean of the clients in the sums that arrived; None if none did."""
        if not self._sums:
            return None
        included = tuple(sorted(client for chain in self._added for client in chain.path))
        total: RingVector = reduce(np.add, self._sums)
        weight = sum(round.weights[client] for client in included)
        return Aggregate(fixed_point.decode(total, weight), included)

    def _held(self, edge: Party) -> list[ChainState]:
        return [chain for chain in self._chains if chain.collector == edge and chain.returned]
