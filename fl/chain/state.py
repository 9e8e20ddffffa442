"""What the server knows of one chain: its path so far, and whose report is due."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np

from fl.round.machines import Aggregate, Round
from fl.round.messages import Message, Party
from fl.round.quantization import FixedPoint, RingVector

Reported = tuple[tuple[int, ...], Party | None]
"""The users of a token, its holder last, and who has it now."""


@dataclass(frozen=True)
class Suspect:
    """Who is at fault for a token.

    Attributes:
        client: which it is.
        due: whether a report that is still due could show that it is another one.
    """

    client: int
    due: bool = False


@dataclass(eq=False)
class ChainState:
    """The state of one chain.

    Attributes:
        number: of the chain.
        members: its clients.
        collector: who gets the token from the last client: the server, or an edge node.
        time_limit: when its token is returned, in seconds.
        lost: clients that take no further part.
        path: clients whose updates are in the sum, in order; the last is the last good hop.
        held: the attempt in which each client of the path had the token that is on it.
        branches: what clients off the path reported in this attempt: users and receiver.
        kept: what cannot be judged before another report of this attempt.
        waiting: the party whose report is due.
        attempt: how often the chain was sent back to its last good hop.
        masks: how many masks were drawn for it.
        mask: the present one.
        settled: whether the chain has ended.
        returned: whether it ended with a sum that the collector holds.
    """

    number: int
    members: tuple[int, ...]
    collector: Party
    time_limit: float
    lost: set[int] = field(default_factory=set)
    path: list[int] = field(default_factory=list)
    held: dict[int, int] = field(default_factory=dict)
    branches: dict[int, Reported] = field(default_factory=dict)
    kept: list[Message] = field(default_factory=list)
    waiting: Party | None = None
    attempt: int = 0
    masks: int = 0
    mask: RingVector | None = None
    settled: bool = False
    returned: bool = False

    def expects(self, users: Sequence[int], attempt: int) -> bool:
        """Returns whether the report that is due may be one of a token with these users.

        A client hands the token on before it reports, so the report of the next holder may arrive
        before its own.
        """
        if self.settled or attempt != self.attempt or not self.lost.isdisjoint(users):
            return False
        known = len(self.path)
        if list(users[:known]) != self.path:
            return False
        if len(users) == known:
            return self.waiting in (users[-1], self.collector)
        return self.waiting in (users[known], *self.path[-1:])

    def advance(self, users: Sequence[int], attempt: int, receiver: Party) -> None:
        """Notes a report that the path goes on with: its last holder gave the token to `receiver`.

        Where it arrived before the report of an earlier holder, it stands for that one as well.
        """
        known = len(self.path)
        for client in users[min(known, len(users) - 1) :]:
            self.held[client] = attempt
        self.path, self.waiting = list(users), receiver

    def go_back(self) -> None:
        """Begins an attempt from the last good hop: what was said of other tokens is void."""
        self.attempt += 1
        self.branches.clear()
        self.kept.clear()

    def find_suspect(self, users: Sequence[int], attempt: int) -> Suspect | None:
        """Returns the client that is at fault for a token which contradicts its report.

        Every hop of `users`, of whom the last has the token, is compared with what its holder
        reported, the last one first: who reported another path or another receiver is at fault, and
        who has not reported yet may be. Nobody else can be, since tags bind a token to its sender.
        The last of the path may still be found to have given its token to two, which its receiver's
        report decides. None: no report contradicts the token, or it went through a lost client.
        """
        if attempt != self.attempt or not self.lost.isdisjoint(users):
            return None
        for hop in reversed(range(len(users) - 1)):
            holder, receiver = users[hop], users[hop + 1]
            last = self.path[-1:] == [holder] and not self.settled
            if last and self.waiting not in (receiver, *self.branches):
                return Suspect(holder, due=True)
            if (tuple(users[: hop + 1]), receiver) not in self._reports(holder):
                return Suspect(holder, due=not self._has_reported(holder))
        return None

    def find_overdue(self) -> Party | None:
        """Returns who is at fault that no report came: who gave another client a token, if any."""
        suspects = (self.find_suspect(users, self.attempt) for users, _ in self.branches.values())
        return next((suspect.client for suspect in suspects if suspect), self.waiting)

    def on_a_branch(self, client: int) -> bool:
        """Returns whether a token off the path went through the client in this attempt."""
        return any(client in users for users, _ in self.branches.values())

    def _reports(self, holder: int) -> list[Reported]:
        """Returns what a holder reported: on the path, and of another token of this attempt."""
        found = [self.branches[holder]] if holder in self.branches else []
        if holder in self.path:
            hops = self.path.index(holder) + 1
            found.append((tuple(self.path[:hops]), (*self.path, self.waiting)[hops]))
        return found

    def _has_reported(self, holder: int) -> bool:
        """Returns whether a holder has reported in this attempt, in which it takes one token."""
        on_path = holder in self.path and self.held[holder] == self.attempt
        return on_path or holder in self.branches


class Totals:
    """The sums of a round that have arrived and those that are due."""

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
