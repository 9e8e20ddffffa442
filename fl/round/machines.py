"""State machines, of which every protocol of a round is made; they know no network and no clock.

A party's machine is told that it starts, that a message has arrived, or that a timer has expired,
each with the present time; it answers with outputs. Whoever runs it carries them out: the
in-process transport (`fl.round.transport`) in experiments, an engine with sockets elsewhere.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from logging import getLogger
from typing import Annotated

import numpy as np
import numpy.typing as npt

from extensions.errors import ArgumentError, MessageError, RoundError, UpdateError
from extensions.rules import Whole, check_fields
from fl.round.encoding import readable
from fl.round.messages import SERVER, Message, Party, Value

LOG = getLogger(__name__)

Vector = npt.NDArray[np.float64]
"""An update, or a mean of updates: all values of the model in one row (size,)."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a client knows of a run's rounds from the run's own settings, whatever the server says.

    Attributes:
        cohort: clients that take part in a round unless some drop out, at least.
        population: clients of the run, which have the numbers below it.
        settings: digest of all other settings.
    """

    cohort: int
    population: int
    settings: bytes = b""


@dataclass(frozen=True, kw_only=True)
class Round:
    """States what all parties of a round know before it begins.

    Attributes:
        number: of the round, from 1.
        size: number of values of an update.
        weights: of each client's update in the mean, by client: its number of records, or 1.
            Public.
        plan: what a client holds the server's announcements against; None outside a run.
        context: digest of what else the party was told, such as the model.

    Raises:
        ArgumentError: clients are missing, a number is below 0, or a weight is anything but a
            whole number of at least 1.

    Examples:
        >>> round = fl.protocols.Round(number=1, size=2, weights={0: 1, 1: 3})
        >>> round.weights
        {0: 1, 1: 3}
    """

    number: Annotated[int, Whole(1)]
    size: Annotated[int, Whole(1)]
    weights: Mapping[int, int]
    plan: Plan | None = None
    context: bytes = b""

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.weights:
            raise ArgumentError("clients", [], "", code="missing")
        own = dict(self.weights)
        # n machines of a round make it: rules are asked one by one where this is not plain.
        kinds = set(map(type, own)) | set(map(type, own.values()))
        if kinds != {int} or min(own) < 0 or min(own.values()) < 1:
            for client, weight in own.items():
                Whole(0).check("clients", client)
                Whole(1).check(f"weight of client {client}", weight)
            own = {int(client): int(weight) for client, weight in own.items()}
        object.__setattr__(self, "weights", own)

    @property
    def clients(self) -> tuple[int, ...]:
        """The clients of the round, in ascending order."""
        return tuple(sorted(self.weights))


@dataclass(frozen=True)
class Timer:
    """Asks for a call at `at` seconds; replaces the machine's timer of that name.

    None for `at` cancels it.

    Examples:
        >>> fl.protocols.Timer("late", at=60.0)
        Timer(name='late', at=60.0)
    """

    name: str
    at: float | None


@dataclass(frozen=True)
class Refusal:
    """Says that a client is left out of the round, and why, without any of its values.

    The reason may have words of other parties: it is made printable, and cut to 500 characters.

    The server refuses a client, or a client withdraws; it is then out of the round. The round
    goes on without it if the protocol can.

    Examples:
        >>> fl.protocols.Refusal(client=3, reason="its update is not finite")
        Refusal(client=3, reason='its update is not finite')
    """

    client: int
    reason: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", readable(self.reason))

    @classmethod
    def by(cls, client: int, error: Exception) -> "Refusal":
        """Returns that a client leaves the round because its own machine raised the error.

        Words of errors that are not made to be told may have a value of a record: they are in the
        log of the client's process, and nobody else reads them.
        """
        if isinstance(error, MessageError | UpdateError | ArgumentError):
            return cls(client, str(error))
        LOG.error("client %d leaves the round", client, exc_info=error)
        return cls(client, "an error on its host; see its own log")

    def withdrawal(self, number: int) -> Message:
        """Returns what a server's machine receives of a client that left a round of that number."""
        body: dict[str, Value] = {"reason": self.reason}
        return Message(
            round=number, sender=self.client, receiver=SERVER, kind="withdraw", body=body
        )


@dataclass(frozen=True, eq=False)
class Aggregate:
    """Ends the round with the server's result.

    Attributes:
        mean: weighted mean of the updates of the clients in `included`.
        included: those clients, in ascending order.

    Examples:
        >>> fl.protocols.Aggregate(mean=np.zeros(2), included=(0, 2)).included
        (0, 2)
    """

    mean: Vector
    included: tuple[int, ...]


Output = Message | Timer | Refusal | Aggregate


MOST_EARLY = 1000
"""Messages that a party keeps which came before their turn."""


def keep(early: list[Message], message: Message) -> None:
    """Adds a message to those that came before their turn; drops it if there are too many."""
    if len(early) < MOST_EARLY:
        early.append(message)


class Machine(ABC):
    """Plays one party of a protocol: it takes messages and times, and returns outputs.

    It is free of sockets, threads and clocks. `start` is called before `receive`. What it draws at
    random comes from the operating system's generator.

    Attributes:
        round: what all know.
        party: whose part this is.

    Examples:
        >>> round = fl.protocols.Round(number=1, size=2, weights={0: 1, 1: 1})
        >>> server = fl.PlainAggregator().server(round)
        >>> isinstance(server, fl.protocols.Machine)
        True
    """

    def __init__(self, round: Round, party: Party) -> None:
        self.round = round
        self.party = party

    def start(self, now: float) -> Iterable[Output]:
        """Yields what the party does of its own accord, at `now` seconds."""
        return ()

    @abstractmethod
    def receive(self, message: Message, now: float) -> Iterable[Output]:
        """Yields what follows from a message.

        It may be malformed, repeated, late, of another round (`check_round`), or from a client that
        was left out or a stranger. A message that breaks the protocol must not end the round; its
        sender must be refused by name if it is a client of the round.
        """

    def expire(self, timer: str, now: float) -> Iterable[Output]:
        """Yields what follows from a timer that the machine asked for."""
        return ()

    def state(self) -> dict[str, Value]:
        """Returns, by name, what a client's machine needs to go on in another process.

        It is called between two messages; `fl.round.state` makes bytes of it. It holds secrets of
        the round.

        Raises:
            MessageError: a machine that stays in its process, as a server's does.
        """
        raise MessageError(f"a {type(self).__name__} stays in its process")

    def restore(self, state: Message) -> None:
        """Goes on from what `state` returned, in a machine that was made with the same arguments.

        Raises:
            MessageError: what the message holds is no such state.
        """
        return

    def send(self, receiver: Party, kind: str, /, **body: Value) -> Message:
        """Returns a message of this party."""
        return Message(
            round=self.round.number, sender=self.party, receiver=receiver, kind=kind, body=body
        )

    def check_round(self, message: Message) -> None:
        """Raises MessageError unless the message is of this round."""
        if message.round != self.round.number:
            raise MessageError(f"a message of round {message.round}, not {self.round.number}")

    def failure(self, reason: str) -> RoundError:
        """Returns the error to raise where the round cannot go on.

        Whoever runs the machine adds those who were left out.
        """
        return RoundError(self.round.number, readable(reason))
