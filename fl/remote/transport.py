"""The transport of one round by requests: the server's machine here, clients on other hosts."""

import time
from collections.abc import Callable, Iterable, Mapping

from extensions.errors import MessageError, RoundError
from fl.remote.envelope import WORK, envelope, packed, unpacked
from fl.remote.links import LINK_BYTES
from fl.remote.post import Answer, Post
from fl.round.choices import Keep
from fl.round.machines import Aggregate, Machine, Output, Refusal, Timer
from fl.round.messages import SERVER, Message, Value, party_name
from fl.round.state import keyed
from fl.round.transport import Carrier
from fl.round.view import Outcome, Sent

POLL = 0.5
"""Seconds between two looks at the timers, while answers are awaited."""


class RemoteTransport(Carrier):
    """Carries the messages of one round.

    A client gets all messages that wait for it in one request, and no further one before it has
    answered. What clients send each other is passed on as it is, sealed (`fl.remote.links`). A
    client whose answer is malformed, or speaks for another party, or that leaves the round, or
    whose node fails, is left out by name; to the machine that is a message of kind "withdraw".

    Of messages between clients the transcript has what the server sees. Messages count as arrived
    when they are sent, so that `leaks_to` errs on the side of a leak. Clients that owe an answer
    when the round ends have vanished.
    """

    def __init__(
        self,
        post: Post,
        nodes: Mapping[int, int],
        told: Callable[[int], str],
        *,
        transcript: Keep = "none",
        between_clients: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(transcript)
        self._post = post
        self._nodes = nodes
        self._clients = {node: client for client, node in nodes.items()}
        self._told = told
        self._between = between_clients
        self._clock = clock
        self._began = clock()
        self._waiting: dict[int, list[Message]] = {client: [] for client in nodes}
        self._asked: set[int] = set()
        self._gone: set[int] = set()
        self._links: dict[int, bytes] = {}
        self._timers: dict[str, float] = {}

    @property
    def now(self) -> float:
        """Seconds since the transport was made."""
        return self._clock() - self._began

    def run(self, machine: Machine) -> Outcome:
        """Returns what came of a round; one that fails is a RoundError."""
        self._machine = machine
        try:
            with self._naming_the_refused():
                self._carry_out(machine.start(self.now))
                while self._aggregate is None:
                    self._turn()
        finally:
            self.vanished = sorted(self._asked - self._gone)
        return self._outcome(self._aggregate, self.now)

    def _turn(self) -> None:
        """Sends what waits, takes answers, and lets timers expire that are due."""
        self._ask()
        if not self._asked and not self._timers:
            reason = "the round stopped: no message or timer is left."
            raise RoundError(self._machine.round.number, reason)
        for answer in self._post.collect(POLL):
            self._take(answer)
            if self._aggregate is not None:
                return
        for name, at in sorted(self._timers.items(), key=lambda timer: timer[1]):
            if at <= self.now and self._timers.get(name) == at and self._aggregate is None:
                del self._timers[name]
                self._carry_out(self._machine.expire(name, self.now))

    def _ask(self) -> None:
        ready = [c for c, some in self._waiting.items() if some and c not in self._asked]
        self._asked.update(ready)
        if ready:
            self._post.send(map(self._request, ready))

    def _request(self, client: int) -> tuple[int, bytes]:
        """Returns all that waits for a client, made now: until then all share one model."""
        messages, self._waiting[client] = self._waiting[client], []
        body: dict[str, Value] = {"messages": packed([each.encode() for each in messages])}
        if self._between and self._links:
            body |= keyed({k: v for k, v in self._links.items() if k != client}, "links")
        number, told = self._machine.round.number, self._told(client)
        data = envelope(number, SERVER, client, WORK, now=self.now, told=told, **body)
        return self._nodes[client], data

    def _take(self, answer: Answer) -> None:
        """Delivers what a client answers, or leaves it out."""
        client = self._clients.get(answer.node)
        if client is None or client in self._gone:
            return
        try:
            if answer.data is None:
                raise MessageError(answer.reason)
            reply = Message.decode(answer.data)
            if reply.round < self._machine.round.number and reply.sender == client and reply.round:
                return
            self._asked.discard(client)
            sent = self._read(reply, client)
        except MessageError as error:
            self._asked.discard(client)
            self._leave_out(client, str(error))
            return
        for message, size in sent:
            if client not in self._gone and self._aggregate is None:
                self._deliver(message, size)

    def _read(self, reply: Message, client: int) -> list[tuple[Message, int]]:
        if left := reply.text("left", ""):
            raise MessageError(left)
        number = self._machine.round.number
        if (reply.sender, reply.kind, reply.round) != (client, WORK, number):
            raise MessageError(
                f"its node answers with {reply.kind!r} of {party_name(reply.sender)}"
            )
        link = reply.body.get("link")
        if self._between:
            if not isinstance(link, bytes) or len(link) != LINK_BYTES:
                raise MessageError("an answer without the key of its links")
            self._links.setdefault(client, link)
        found = []
        for data in unpacked(reply):
            message = Message.decode(data)
            receivers = {SERVER, *(self._nodes if self._between else ())} - {client}
            if message.sender != client or message.receiver not in receivers:
                ends = f"{party_name(message.sender)} to {party_name(message.receiver)}"
                raise MessageError(f"a message of {ends}, which it may not send")
            found.append((message, len(data)))
        return found

    def _deliver(self, message: Message, size: int) -> None:
        now = self.now
        self.transcript.add(Sent(message, size, now, now))
        if message.receiver == SERVER:
            self._carry_out(self._machine.receive(message, now))
        elif message.receiver not in self._gone:
            self._waiting[message.receiver].append(message)

    def _leave_out(self, client: int, reason: str) -> None:
        refusal = Refusal(client, reason)
        self._refuse(refusal)
        self._gone.add(client)
        self._waiting[client] = []
        withdrawal = refusal.withdrawal(self._machine.round.number)
        self._carry_out(self._machine.receive(withdrawal, self.now))

    def _carry_out(self, outputs: Iterable[Output]) -> None:
        for output in outputs:
            match output:
                case Message():
                    data, now = output.encode(), self.now
                    self.transcript.add(Sent(Message.decode(data), len(data), now, now))
                    if output.receiver not in self._gone:
                        self._waiting[output.receiver].append(output)
                case Timer():
                    if output.at is None:
                        self._timers.pop(output.name, None)
                    else:
                        self._timers[output.name] = output.at
                case Refusal():
                    self._refuse(output)
                case Aggregate():
                    self._aggregate = output
