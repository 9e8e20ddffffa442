"""Who saw what: the transcript of a round, and the view of any coalition of its parties."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from extensions.errors import ArgumentError
from extensions.rules import one_of
from fl.round.choices import Keep
from fl.round.machines import Aggregate, Refusal
from fl.round.messages import SERVER, Message, Party


class Coalition:
    """Names parties that pool all that they know.

    Args:
        clients: numbers of clients.
        server: whether the server is one of them.
        others: further parties of the protocol, with numbers below that of the server.
        lying: whether they also break the protocol.

    Raises:
        ArgumentError: a number of a client below 0.

    Examples:
        >>> updates = {k: np.full(2, float(k)) for k in range(3)}
        >>> outcome = fl.protocols.aggregate(fl.PlainAggregator(), updates)
        >>> sorted(map(sorted, fl.PlainAggregator().leaks_to(fl.Coalition(server=True), outcome)))
        [[0], [1], [2]]
    """

    def __init__(
        self,
        clients: Iterable[int] = (),
        *,
        server: bool = False,
        others: Iterable[Party] = (),
        lying: bool = False,
    ) -> None:
        self.clients = frozenset(clients)
        self.server = server
        self.others = frozenset(others)
        self.lying = lying
        if any(client < 0 for client in self.clients):
            rule = "numbers of at least 0"
            raise ArgumentError("clients", sorted(self.clients), rule, code="range")

    def __contains__(self, party: Party) -> bool:
        if party == SERVER:
            return self.server
        return party in self.clients or party in self.others


@dataclass
class Sent:
    """Records one message: its size, and when it was sent and arrived.

    Attributes:
        message: as its receiver decoded it.
        size: bytes of its encoding.
        sent: when, in seconds.
        arrived: when; None while it is under way, or if its receiver had vanished.

    Examples:
        >>> updates = {0: np.array([1.0, 2.0]), 1: np.array([3.0, 4.0])}
        >>> outcome = fl.protocols.aggregate(fl.PlainAggregator(), updates)
        >>> [sent.size for sent in outcome.transcript.messages]
        [31, 31]
    """

    message: Message
    size: int
    sent: float
    arrived: float | None = None


@dataclass
class Transcript:
    """Records a round's messages in the order in which they were sent, lost ones included.

    Attributes:
        keep: "all": messages with what they hold. "sizes": who sent whom what kind, how large and
            when. "none": only the bytes from each party to each other.
        messages: those that are kept.

    Raises:
        ArgumentError: another `keep`; or a request for what was left out.

    Examples:
        >>> updates = {0: np.array([1.0, 2.0]), 1: np.array([3.0, 4.0])}
        >>> outcome = fl.protocols.aggregate(fl.PlainAggregator(), updates)
        >>> [(sent.message.sender, sent.message.kind) for sent in outcome.transcript.messages]
        [(0, 'update'), (1, 'update')]
    """

    keep: Keep = "all"
    messages: list[Sent] = field(default_factory=list)
    _bytes: Counter[tuple[Party, Party]] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        one_of(Keep).check("transcript", self.keep)

    def __iter__(self) -> Iterator[Sent]:
        self._check("sizes", "all")
        return iter(self.messages)

    def _check(self, *enough: Keep) -> None:
        one_of(enough).check("transcript", self.keep, "Ask for it when you make the round.")

    def add(self, entry: Sent) -> Sent | None:
        """Counts a message that is sent, and returns what is kept of it."""
        message = entry.message
        self._bytes[message.sender, message.receiver] += entry.size
        if self.keep == "none":
            return None
        if self.keep == "sizes":
            entry = replace(entry, message=replace(message, body={}))
        self.messages.append(entry)
        return entry

    def view(self, coalition: Coalition) -> list[Message]:
        """Returns the messages that a member sent or received, each once, in order of sending.

        With the members' own updates and random draws that is all that they have.
        """
        self._check("all")
        return [
            entry.message
            for entry in self.messages
            if entry.message.sender in coalition
            or (entry.message.receiver in coalition and entry.arrived is not None)
        ]

    def received(self, party: Party, kind: str) -> list[Message]:
        """Returns the messages of a kind that arrived at the party."""
        self._check("all")
        return [
            entry.message
            for entry in self.messages
            if entry.arrived is not None
            and (entry.message.receiver, entry.message.kind) == (party, kind)
        ]

    def receivers(self, kind: str) -> set[Party]:
        """Returns the parties at which messages of a kind arrived."""
        return {
            entry.message.receiver
            for entry in self
            if entry.arrived is not None and entry.message.kind == kind
        }

    def bytes(self, *, sender: Party | None = None, receiver: Party | None = None) -> int:
        """Returns the number of bytes sent, of the sender and receiver that are given."""
        return sum(
            size
            for (one, other), size in self._bytes.items()
            if sender in (None, one) and receiver in (None, other)
        )


@dataclass(frozen=True, eq=False)
class Outcome:
    """Holds a round's result, and who saw which message.

    Attributes:
        aggregate: the server's result.
        refusals: of the clients that were left out, in order.
        vanished: parties that dropped out, in order.
        seconds: from the start to the result, on the virtual clock.
        transcript: its messages, as far as they are kept.

    Examples:
        >>> updates = {0: np.array([1.0, 2.0]), 1: np.array([3.0, 4.0])}
        >>> outcome = fl.protocols.aggregate(fl.PlainAggregator(), updates)
        >>> outcome.aggregate.included, outcome.refusals
        ((0, 1), ())
    """

    aggregate: Aggregate
    refusals: tuple[Refusal, ...]
    vanished: tuple[Party, ...]
    seconds: float
    transcript: Transcript

    @property
    def included(self) -> tuple[int, ...]:
        """The clients whose updates are in the mean."""
        return self.aggregate.included
