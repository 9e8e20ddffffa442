"""What the server knows of one chain: its path so far, and whose report is due."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from fl.round.messages import Party
from fl.round.quantization import RingVector


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

    def find_forger(self, users: Sequence[int], attempt: int) -> int | None:
        """Returns the client whose token contradicts its report, if these users show it.

        The culprit is the last earlier holder whose reported path differs from `users`, or whose
        report is still due; the tags rule out everybody else. A late report shows nothing.

        Args:
            users: of the token, its present holder last.
            attempt: of the token.

        Returns:
            None where no report contradicts the token.
        """
        if self.settled or attempt != self.attempt or not self.lost.isdisjoint(users):
            return None
        if self.expects(users, attempt):
            return None
        pairs = list(zip(users, self.path, strict=False))
        same = next((i for i, (a, b) in enumerate(pairs) if a != b), len(pairs))
        if same == len(users) or len(users) < 2:
            return None
        able = {*self.path, self.waiting}
        return next((client for client in reversed(users[:-1]) if client in able), None)
