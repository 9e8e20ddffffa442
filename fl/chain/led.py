"""Chains without a server: in each round one of the clients does what the server does.

A client that leads draws the mask, hands out keys, follows the tokens and unmasks the sum, and is
on the chain like any other. Its two parts are the machines of `ChainServer` and `ChainClient`; what
goes to or comes from the leading part has a kind that begins with "lead.". It sends everybody the
mean. The experiment's server is only one of those who get it.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from extensions.errors import MessageError, RoundError
from fl.chain.client import ChainClient
from fl.chain.server import ChainServer
from fl.chain.token import LEAD
from fl.round.machines import Aggregate, Machine, Output, Refusal, Round, Timer
from fl.round.messages import SERVER, Message, party_name

_TIMER = "lead "


def leader_of(round: Round) -> int:
    """Returns who leads: by the number of the round, each client in turn."""
    return round.clients[round.number % len(round.clients)]


class Led(Machine):
    """A client's part: its own on the chain, and, of the client that leads, what a leader does."""

    def __init__(self, own: ChainClient, leading: ChainServer | None) -> None:
        super().__init__(own.round, own.party)
        self._own = own
        self._leading = leading
        self._leader = leader_of(own.round)

    def start(self, now: float) -> Iterable[Output]:
        if self._leading is not None:
            yield from self._carried(self._leading.start(now), now, leading=True)

    def receive(self, message: Message, now: float) -> Iterable[Output]:
        if not message.kind.startswith(LEAD):
            if message.sender == SERVER:
                return
            yield from self._carried(self._own.receive(message, now), now, leading=False)
            return
        inner = replace(message, kind=message.kind.removeprefix(LEAD))
        if self._leading is not None and message.sender != self.party:
            inner = replace(inner, receiver=SERVER)
            yield from self._carried(self._leading.receive(inner, now), now, leading=True)
        elif message.sender == self._leader:
            inner = replace(inner, sender=SERVER)
            yield from self._carried(self._own.receive(inner, now), now, leading=False)

    def expire(self, timer: str, now: float) -> Iterable[Output]:
        if self._leading is not None:
            outputs = self._leading.expire(timer.removeprefix(_TIMER), now)
            yield from self._carried(outputs, now, leading=True)

    def _carried(self, outputs: Iterable[Output], now: float, *, leading: bool) -> Iterator[Output]:
        """Yields outputs as `_passed_on`, or that the leading part ends the round."""
        try:
            yield from self._passed_on(outputs, now, leading=leading)
        except RoundError as error:
            yield self.send(SERVER, "failure", reason=error.reason)

    def _passed_on(
        self, outputs: Iterable[Output], now: float, *, leading: bool
    ) -> Iterator[Output]:
        """Yields outputs of a part as this client's; what its other part gets stays here."""
        waiting = deque([(outputs, leading)])
        while waiting:
            some, by_leader = waiting.popleft()
            for output in some:
                if not isinstance(output, Message):
                    yield from self._said(output)
                    continue
                outer = self._outer(output)
                if outer.receiver != self.party:
                    yield outer
                elif by_leader:
                    waiting.append((self._own.receive(output, now), False))
                elif self._leading is not None:
                    waiting.append((self._leading.receive(output, now), True))

    def _said(self, output: Output) -> Iterator[Output]:
        """Yields the leader's result to all, and what else is no message."""
        match output:
            case Timer():
                yield replace(output, name=_TIMER + output.name)
            case Aggregate():
                included = np.array(output.included, dtype=np.int64)
                for party in (*self.round.clients, SERVER):
                    if party != self.party:
                        yield self.send(party, "mean", values=output.mean, clients=included)
            case Refusal(client=client, reason=reason):
                told = np.array([client], dtype=np.int64)
                yield self.send(SERVER, "refusal", clients=told, reason=reason)
            case _:
                yield output

    def _outer(self, message: Message) -> Message:
        """Returns the message as it travels: the leading part has the leader's number."""
        if message.sender == SERVER:
            return replace(message, sender=self.party, kind=LEAD + message.kind)
        if message.receiver == SERVER:
            return replace(message, receiver=self._leader, kind=LEAD + message.kind)
        return message


class LedObserver(Machine):
    """The experiment's server: it takes the mean that everybody gets, and gives nothing.

    A round fails in which it hears nothing of the leader for `timeout` seconds.
    """

    def __init__(self, round: Round, timeout: float) -> None:
        super().__init__(round, SERVER)
        self._leader = leader_of(round)
        self._timeout = timeout
        self._ended = False

    def start(self, now: float) -> Iterable[Output]:
        yield Timer("mean", now + self._timeout)

    def receive(self, message: Message, now: float) -> Iterable[Output]:
        if self._ended or message.sender != self._leader:
            return
        try:
            self.check_round(message)
            if message.kind == "failure":
                raise self.failure(message.text("reason", "no reason given"))
            clients = message.clients("clients")
            if strangers := set(clients) - set(self.round.clients):
                raise MessageError(f"clients {sorted(strangers)[:3]} who take no part")
            if message.kind == "refusal":
                for client in clients:
                    yield Refusal(client, message.text("reason", "no reason given"))
            elif message.kind == "mean":
                mean = message.array("values", np.float64, (self.round.size,))
                if not clients or not np.all(np.isfinite(mean)):
                    raise MessageError("a mean of nobody, or one with values that are not finite")
                self._ended = True
                yield Timer("mean", None)
                yield Aggregate(mean, tuple(sorted(clients)))
        except MessageError as error:
            raise self.failure(f"{party_name(self._leader)}, who leads, sent {error}") from error

    def expire(self, timer: str, now: float) -> Iterable[Output]:
        raise self.failure(
            f"{party_name(self._leader)}, who leads the round, sent no mean within "
            f"{self._timeout:g} s"
        )
