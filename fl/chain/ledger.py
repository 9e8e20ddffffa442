"""What the server knows of one chain: its path so far, and from whom it must hear next."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from fl.privacy.quantization import RingVector
from fl.round.messages import Party


@dataclass(eq=False)
class Ledger:
    """The state of one chain.

    Attributes:
        number: of the chain.
        members: its clients.
        collector: to whom its last client returns the token: the server, or an edge node.
        time_limit: when its token is returned, in seconds.
        lost: clients that take no further part.
        path: clients whose updates are in the sum, in order; the last is the last good hop.
        waiting: from whom word must come next.
        attempt: how often the chain was sent back.
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

    def follows(self, users: Sequence[int], attempt: int) -> bool:
        """Returns whether word of a token with these users is the one that was waited for.

        A client hands the token on before it says so: then the word of the next one, who has the
        token, may come without its own.
        """
        if self.settled or attempt != self.attempt or not self.lost.isdisjoint(users):
            return False
        known = len(self.path)
        if list(users[:known]) != self.path:
            return False
        if len(users) == known:
            return self.waiting in (users[-1], self.collector)
        return self.waiting in (users[known], *self.path[-1:])

    def forked(self, users: Sequence[int], attempt: int) -> int | None:
        """Returns the client whose token is not what it gave word of, if these users show it.

        It is the last of them, before the one who has the token, that gave word of another path, or
        of which word must come next: the tags leave nobody else. Word that comes late shows none.
        """
        if self.settled or attempt != self.attempt or not self.lost.isdisjoint(users):
            return None
        if self.follows(users, attempt):
            return None
        pairs = list(zip(users, self.path, strict=False))
        same = next((i for i, (a, b) in enumerate(pairs) if a != b), len(pairs))
        if same == len(users) or len(users) < 2:
            return None
        able = {*self.path, self.waiting}
        return next((client for client in reversed(users[:-1]) if client in able), None)
