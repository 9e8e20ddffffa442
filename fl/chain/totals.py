"""The sums that came back to the server, without their masks, and what edge nodes still owe it."""

from collections.abc import Sequence
from functools import reduce

import numpy as np

from fl.chain.ledger import Ledger
from fl.privacy.quantization import FixedPoint, RingVector
from fl.round.machines import Aggregate, Round
from fl.round.messages import Party


class Totals:
    """What adds up to the mean of a round.

    Args:
        chains: all chains of the round.
    """

    def __init__(self, chains: Sequence[Ledger]) -> None:
        self._chains = chains
        self._owing: set[Party] = set()
        self._sums: list[RingVector] = []
        self._added: list[Ledger] = []

    def add(self, values: RingVector, chains: Sequence[Ledger]) -> None:
        """Takes the masks of the chains off their masked sum, and keeps it."""
        masks = [chain.mask for chain in chains if chain.mask is not None]
        self._sums.append(reduce(np.subtract, masks, values))
        self._added += chains

    def ask(self, edge: Party) -> list[tuple[int, int, int]]:
        """Returns which sums an edge node owes, once its chains ended: chain, attempt, sender."""
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
        """Returns the clients whose updates are lost with an edge node that owes its total."""
        self._owing.remove(edge)
        return [client for chain in self._held(edge) for client in chain.path]

    def complete(self) -> bool:
        """Returns whether nothing is awaited any more."""
        return not self._owing and all(chain.settled for chain in self._chains)

    def aggregate(self, round: Round, fixed_point: FixedPoint) -> Aggregate | None:
        """Returns the mean of all whose sums came, if any came."""
        if not self._sums:
            return None
        included = tuple(sorted(client for chain in self._added for client in chain.path))
        total: RingVector = reduce(np.add, self._sums)
        weight = sum(round.weights[client] for client in included)
        return Aggregate(fixed_point.decode(total, weight), included)

    def _held(self, edge: Party) -> list[Ledger]:
        return [chain for chain in self._chains if chain.collector == edge and chain.returned]
