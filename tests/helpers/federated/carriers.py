"""What carries the messages of a round: a transport of one process, or requests to other hosts.

A carrier seats the clients, whose machines a test may then change, and runs the round. By requests
each client is a `RemoteClient`: it goes on from bytes at every request, its messages travel in
envelopes, and what it sends other clients is sealed. The test sees what it sent them all the same.
"""

import json
import os
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp

from torch import nn

from fl.protocols import SERVER, Aggregator, Message, Outcome, Refusal, Round, Transcript, Vector
from fl.remote.client import RemoteClient
from fl.remote.envelope import WORK, envelope, packed, unpacked
from fl.remote.links import Link
from fl.remote.post import Answer, Post
from fl.remote.transport import RemoteTransport
from fl.round.machines import Machine, Output
from fl.round.view import Sent
from fl.simulation import InProcessTransport
from fl.training.data import Records
from fl.training.settings import RunSettings
from fl.weights import Weights

Update = Callable[[int, Weights], Vector]


class Clock:
    """Seconds that pass while nobody answers."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def settings_of(aggregator: Aggregator) -> RunSettings:
    """Returns the settings of a run of which all clients take part in every round."""
    return RunSettings(aggregator=aggregator, client_fraction=1.0, timeout=60.0)


class InOneProcess(InProcessTransport):
    """The transport of a simulation: clients are the machines that the test made."""

    @classmethod
    def of(cls, aggregator: Aggregator, round: Round, update: Update) -> "InOneProcess":
        return cls()

    def seats(self) -> dict[int, Machine]:
        return {}


class Seat(Machine):
    """Stands for a client's machine, which is made anew from bytes at every request."""

    inner: Machine | None = None

    def receive(self, message: Message, now: float) -> Iterable[Output]:
        return () if self.inner is None else self.inner.receive(message, now)

    def expire(self, timer: str, now: float) -> Iterable[Output]:
        return () if self.inner is None else self.inner.expire(timer, now)


class Seated(RemoteClient):
    """A client on another host, whose messages pass what a test put around its machine."""

    table: "Requests"

    def _alone(self, number: int) -> Round:
        return replace(super()._alone(number), size=self.table.round.size)

    def _update(self, round: Round, received: Weights) -> Vector:
        return self.table.update(self.client, received)

    def _outputs(
        self, machine: Machine, messages: Iterable[Message], link: Link, now: float
    ) -> Iterator[Output]:
        self.table.chairs[self.client].inner = machine
        around = self.table.machines[self.client]
        for output in super()._outputs(around, messages, link, now):
            if isinstance(output, Message) and output.receiver >= 0:
                self.table.private[self.client].append(output)
            yield output


class Requests(Post):
    """An engine in this process that answers the requests of one round.

    Its clients have notes of their own: to them it is the first round of a session.
    """

    def __init__(self, aggregator: Aggregator, round: Round, update: Update) -> None:
        self.aggregator, self.round, self.update = aggregator, round, update
        self.chairs = {client: Seat(round, client) for client in round.clients}
        self.machines: dict[int, Machine] = {}
        self.private: dict[int, deque[Message]] = defaultdict(deque)
        self.transcript = Transcript("all")
        self.refusals: list[Refusal] = []
        self._clock = Clock()
        self._notes = Path(mkdtemp(dir=os.environ["XDG_STATE_HOME"]))
        self._clients = {client: self._client(client) for client in round.clients}
        self._kept: dict[int, bytes] = {}
        self._answers: deque[Answer] = deque()

    @classmethod
    def of(cls, aggregator: Aggregator, round: Round, update: Update) -> "Requests":
        return cls(aggregator, round, update)

    def seats(self) -> dict[int, Machine]:
        return dict(self.chairs)

    def run(self, machines: dict[int, Machine]) -> Outcome:
        """Returns what came of a round; the transcript has what clients sent each other, open."""
        self.machines = machines
        transport = RemoteTransport(
            self,
            {client: client for client in machines if client >= 0},
            lambda client: json.dumps({}),
            transcript="all",
            between_clients=self.aggregator.between_clients,
            clock=self._clock,
        )
        self.transcript, self.refusals = transport.transcript, transport.refusals
        try:
            return transport.run(machines[SERVER])
        finally:
            self._take_what_is_under_way()
            self._open_private()

    def _take_what_is_under_way(self) -> None:
        """Notes answers that came after the end of the round, as a server that lies would."""
        for answer in self._answers:
            for data in unpacked(Message.decode(answer.data or b"")):
                now, message = self._clock.now, Message.decode(data)
                self.transcript.add(Sent(message, len(data), now, now))

    def _open_private(self) -> None:
        """Puts what clients sent each other in place of what was sealed, in the transcript."""
        for entry in self.transcript:
            sealed, sent = entry.message, self.private[entry.message.sender]
            while sealed.receiver >= 0 and sent:
                message = sent.popleft()
                if (message.receiver, message.kind) == (sealed.receiver, sealed.kind):
                    entry.message = message
                    break

    def nodes(self) -> Iterable[int]:
        return list(self.machines)

    def send(self, requests: Iterable[tuple[int, bytes]]) -> None:
        for node, request in requests:
            if node in self._clients:
                kept = self._kept.get(node, b"")
                answer, self._kept[node] = self._clients[node].answer(request, kept, node)
            else:
                answer = _strange(self.machines[node], request)
            self._answers.append(Answer(node, answer))

    def collect(self, wait: float) -> Iterable[Answer]:
        if not self._answers:
            self._clock.now += wait
        while self._answers:
            yield self._answers.popleft()

    def _client(self, client: int) -> Seated:
        records = _records(self.round.weights[client])
        made = Seated(
            settings=settings_of(self.aggregator),
            model=nn.Linear(1, 2),
            clients=len(self.round.weights),
            client=client,
            records=records,
            identities=getattr(self.aggregator, "identities", None),
            folder=self._notes,
        )
        made.settings = settings_of(self.aggregator)  # not a copy: attackers look there for keys
        made.table = self
        return made


def _records(count: int) -> Records:
    return [[0.0]] * count, [0] * count


def _strange(machine: Machine, request: bytes) -> bytes:
    """Returns what a node answers that the server made up: it keeps its machine."""
    asked = Message.decode(request)
    sent: list[bytes] = []
    for message in map(Message.decode, unpacked(asked)):
        outputs = machine.receive(message, 0.0)
        sent += [each.encode() for each in outputs if isinstance(each, Message)]
    link = Link.fresh().public
    return envelope(
        asked.round,
        machine.party,
        SERVER,
        WORK,
        messages=packed(sent),
        link=link,
        left="",
    )


CARRIERS = {"one process": InOneProcess, "requests": Requests}


def places(
    aggregators: Mapping[str, Callable[[], Aggregator]],
) -> list[tuple[str, str]]:
    """Returns the pairs of a carrier and the name of an aggregator that runs on it."""
    made = {name: make() for name, make in aggregators.items()}
    remote = [name for name, a in made.items() if not (a.hides_model or a.one_process)]
    return [*(("one process", name) for name in made), *(("requests", name) for name in remote)]
