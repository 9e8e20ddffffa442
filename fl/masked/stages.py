"""The stages of a server that waits for one message from every client that is left."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from extensions.errors import MessageError
from fl.masked.terms import Terms
from fl.round.machines import Machine, Output, Refusal, Timer
from fl.round.messages import SERVER, Message

STAGE = "stage"
BEFORE_THE_SUM = ("advertise", "shares", "masked")
"""Stages in which a client that fails is left out of the sum."""

Read = Callable[[Message], Any]
Close = Callable[[dict[int, Any], float], Iterable[Output]]
"""What reads a client's message in a stage, and what ends the stage with all of these."""


class StagedServer(Machine):
    """A server that goes from stage to stage.

    Each stage waits for one message from every client that is left. A client that sends a second
    one, or none in time, is left out from then on; values that were added before stay in the sum.
    The round fails if fewer than t clients complete a stage.
    """

    def __init__(self, terms: Terms, timeout: float) -> None:
        super().__init__(terms.round, SERVER)
        self._terms = terms
        self._timeout = timeout
        self._stage = ""
        self._waiting: set[int] = set()
        self._answers: dict[int, Any] = {}

    @abstractmethod
    def _stages(self) -> Mapping[str, tuple[Read, Close]]:
        """Returns what is done in each stage, by the kind of the message that clients send."""

    def start(self, now: float) -> Iterable[Output]:
        yield from self._open("advertise", self.round.clients, now)

    def receive(self, message: Message, now: float) -> Iterable[Output]:
        client = message.sender
        if client not in self._waiting and client not in self._answers:
            return
        try:
            self.check_round(message)
            if message.kind != self._stage or client in self._answers:
                raise MessageError(f"a message of kind {message.kind!r} out of turn")
            read, _ = self._stages()[self._stage]
            self._answers[client] = read(message)
        except MessageError as error:
            self._answers.pop(client, None)
            yield Refusal(client, str(error))
        self._waiting.discard(client)
        if not self._waiting:
            yield from self._end_stage(now)

    def expire(self, timer: str, now: float) -> Iterable[Output]:
        if self._stage in BEFORE_THE_SUM:
            for client in sorted(self._waiting):
                yield Refusal(client, f"no {self._stage!r} within {self._timeout:g} s")
        self._waiting.clear()
        yield from self._end_stage(now)

    def _open(self, stage: str, clients: Iterable[int], now: float) -> Iterable[Output]:
        self._stage, self._waiting, self._answers = stage, set(clients), {}
        yield Timer(STAGE, now + self._timeout)

    def _open_next(self, clients: Iterable[int], now: float) -> Iterable[Output]:
        stages = list(self._stages())
        return self._open(stages[stages.index(self._stage) + 1], clients, now)

    def _end_stage(self, now: float) -> Iterable[Output]:
        answers = {client: self._answers[client] for client in sorted(self._answers)}
        if len(answers) < self._terms.threshold:
            raise self.failure(
                f"{len(answers)} of {len(self.round.clients)} clients have completed "
                f"{self._stage!r}, fewer than the threshold {self._terms.threshold}."
            )
        _, close = self._stages()[self._stage]
        yield from close(answers, now)
