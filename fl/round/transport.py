"""The in-process transport: runs all machines of a round on a virtual clock, and records it."""

import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from statistics import mode

from extensions.errors import ArgumentError, MessageError, RoundError, UpdateError
from extensions.rules import one_of
from fl.round.aggregator import Aggregator
from fl.round.choices import Keep
from fl.round.machines import Aggregate, Machine, Output, Refusal, Round, Timer, Vector
from fl.round.messages import SERVER, Message, Party, party_name
from fl.round.network import DropOut, Network
from fl.round.view import Outcome, Sent, Transcript

Event = Callable[[], Iterable[Output]]


class Carrier:
    """What carries the messages of one round, and what it has of it.

    Attributes:
        transcript: the messages that were sent so far; of a round that failed, too.
        refusals: of clients that were left out so far.
        vanished: parties that dropped out so far.
    """

    def __init__(self, transcript: Keep) -> None:
        self.transcript = Transcript(transcript)
        self.refusals: list[Refusal] = []
        self.vanished: list[Party] = []
        self._aggregate: Aggregate | None = None

    @property
    def now(self) -> float:
        """The present time, in seconds."""
        raise NotImplementedError

    def _refuse(self, refusal: Refusal) -> None:
        if refusal.client not in {known.client for known in self.refusals}:
            self.refusals.append(refusal)

    @contextmanager
    def _naming_the_refused(self) -> Iterator[None]:
        """Adds to a RoundError who was left out."""
        try:
            yield
        except RoundError as error:
            refused = {refusal.client: refusal.reason for refusal in self.refusals}
            raise RoundError(error.number, error.reason, refused | error.refused) from error

    def _outcome(self, aggregate: Aggregate, seconds: float) -> Outcome:
        return Outcome(
            aggregate=aggregate,
            refusals=tuple(self.refusals),
            vanished=tuple(self.vanished),
            seconds=seconds,
            transcript=self.transcript,
        )


class InProcessTransport(Carrier):
    """Carries the messages of one round between machines in this process.

    Every message is encoded, counted in bytes and decoded again, so machines share only messages.
    The clock is virtual: it jumps to the next event. Events of the same time come in the order in
    which they were caused. A round fails if it has nothing left to wait for; the error
    names the parties that vanished.

    A client is left out if its machine leaves the round, raises an error, or sends a value without
    an encoding. The server's machine then receives a message of kind "withdraw", as it does from
    clients on other hosts.

    Args:
        network: delays and bandwidths; by default 0 and infinite.
        drop_outs: who vanishes when.
        transcript: what is kept of the messages (`Transcript`).

    Examples:
        >>> transport = fl.simulation.InProcessTransport(transcript="sizes")
        >>> updates = {0: np.zeros(4), 1: np.ones(4)}
        >>> outcome = fl.protocols.aggregate(fl.PlainAggregator(), updates, transport=transport)
        >>> outcome.transcript.keep
        'sizes'
    """

    def __init__(
        self,
        network: Network | None = None,
        drop_outs: Sequence[DropOut] = (),
        transcript: Keep = "all",
    ) -> None:
        super().__init__(transcript)
        self._network = network or Network()
        self._drop_outs = tuple(drop_outs)
        self._machines: dict[Party, Machine] = {}
        self._events: list[tuple[float, int, Party, Event]] = []
        self._order = itertools.count()
        self._timers: dict[tuple[Party, str], Timer] = {}
        self._free: dict[tuple[Party, Party], float] = {}
        self._left: set[Party] = set()
        self._ended: float | None = None
        self._now = 0.0

    @property
    def now(self) -> float:
        """The present time on the virtual clock, in seconds."""
        return self._now

    def run(self, machines: Mapping[Party, Machine]) -> Outcome:
        """Returns what came of a round, once the server has its result.

        Messages that are under way then still arrive; timers no longer expire.

        Args:
            machines: of all parties, the server's among them; each is started at time 0.

        Raises:
            RoundError: the round failed; it names the clients that were left out.
        """
        if self._machines:
            raise ArgumentError("transport", "a used one", "a new one for every round")
        if SERVER not in machines:
            rule = f"machines, one of party {SERVER} among them"
            raise ArgumentError("machines", sorted(machines), rule)
        self._machines = dict(machines)
        for party in machines:
            self._schedule(0.0, party, partial(self._start, party))
        with self._naming_the_refused():
            return self._until_nothing_is_under_way()

    def _until_nothing_is_under_way(self) -> Outcome:
        while self._events:
            self._now, _, party, event = heapq.heappop(self._events)
            if party not in self.vanished and party not in self._left:
                self._carry_out(party, self._outputs(party, event))
        if self._aggregate is None or self._ended is None:
            gone = ", ".join(map(party_name, self.vanished)) or "nobody"
            reason = f"the round stopped: no message or timer is left; {gone} vanished."
            raise RoundError(self._machines[SERVER].round.number, reason)
        return self._outcome(self._aggregate, self._ended)

    def _schedule(self, at: float, party: Party, event: Event) -> None:
        heapq.heappush(self._events, (at, next(self._order), party, event))

    def _start(self, party: Party) -> Iterable[Output]:
        return self._machines[party].start(self.now)

    def _deliver(self, message: Message, kept: Sent | None) -> Iterable[Output]:
        if kept is not None:
            kept.arrived = self.now
        return self._machines[message.receiver].receive(message, self.now)

    def _expire(self, party: Party, timer: Timer) -> Iterable[Output]:
        if self._aggregate or self._timers[party, timer.name] is not timer:
            return ()
        return self._machines[party].expire(timer.name, self.now)

    def _outputs(self, party: Party, event: Event) -> Iterable[Output | Sent]:
        """Returns what a party answers, messages as they arrive; of a client all, or why not."""
        sent = (self._encoded(party, output) for output in event())
        if party < 0:
            return sent
        try:
            answers = list(sent)
        except Exception as error:
            return [Refusal.by(party, error)]
        left = [one for one in answers if isinstance(one, Refusal) and one.client == party]
        return left or answers

    def _encoded(self, party: Party, output: Output) -> Output | Sent:
        if not isinstance(output, Message):
            return output
        try:
            data = output.encode()
            return Sent(Message.decode(data), len(data), self.now)
        except MessageError as error:
            if party < 0:
                raise self._machines[SERVER].failure(str(error)) from error
            raise

    def _carry_out(self, party: Party, outputs: Iterable[Output | Sent]) -> None:
        leaving: DropOut | None = None
        for output in outputs:
            if leaving and not (isinstance(output, Sent) and output.message.kind == leaving.kind):
                break
            match output:
                case Sent():
                    leaving = leaving or self._drop_out(party, output.message.kind)
                    if leaving and leaving.when == "before":
                        break
                    self._check(party, output.message)
                    self._send(output.message, output.size, self.transcript.add(output))
                case Timer():
                    self._timers[party, output.name] = output
                    if output.at is not None:
                        self._schedule(output.at, party, partial(self._expire, party, output))
                case Refusal():
                    self._refuse(output)
                    if output.client == party:
                        self._left.add(party)
                        self._send(output.withdrawal(self._machines[SERVER].round.number))
                        return
                case Aggregate():
                    self._aggregate, self._ended = output, self.now
        if leaving:
            self.vanished.append(party)

    def _drop_out(self, party: Party, kind: str) -> DropOut | None:
        stated = [d for d in self._drop_outs if (d.party, d.kind) == (party, kind)]
        return stated[0] if stated else None

    def _check(self, party: Party, message: Message) -> None:
        if message.sender != party:
            raise ArgumentError("sender", message.sender, f"{party}, whose machine sends it")
        if message.receiver not in self._machines:
            rule = one_of(sorted(self._machines))
            raise ArgumentError("receiver", message.receiver, rule)

    def _send(self, message: Message, size: int = 0, kept: Sent | None = None) -> None:
        way = (message.sender, message.receiver)
        link = self._network.link(*way)
        self._free[way] = max(self.now, self._free.get(way, 0.0)) + size / link.bandwidth
        arrival = partial(self._deliver, message, kept)
        self._schedule(self._free[way] + link.delay, message.receiver, arrival)


def aggregate(
    aggregator: Aggregator,
    updates: Mapping[int, Vector],
    weights: Mapping[int, int] | None = None,
    *,
    number: int = 1,
    transport: InProcessTransport | None = None,
) -> Outcome:
    """Returns the weighted mean of the updates, and all that was sent for it.

    Args:
        aggregator: the protocol.
        updates: by client, each of shape (size,); the size is that of most of them.
        weights: by client; 1 each unless given.
        number: of the round.
        transport: a new one, with its delays and drop-outs; by default without either.

    Raises:
        ArgumentError: what the aggregator refuses before anything is sent.
        UpdateError: an update that its client would withhold; names the client.
        RoundError: the round failed.

    Examples:
        >>> updates = {0: np.array([1.0, 2.0]), 1: np.array([3.0, 6.0])}
        >>> outcome = fl.protocols.aggregate(fl.PlainAggregator(), updates, weights={0: 1, 1: 3})
        >>> outcome.aggregate.mean.tolist()
        [2.5, 5.0]
    """
    if not updates:
        raise ArgumentError("updates", {}, "", code="missing")
    if weights is not None and weights.keys() != updates.keys():
        raise ArgumentError("weights", sorted(weights), f"those of clients {sorted(updates)}")
    size = mode(update.size for update in updates.values())
    round = Round(number=number, size=size, weights=weights or dict.fromkeys(updates, 1))
    aggregator.check_round(round)
    machines: dict[Party, Machine] = {SERVER: aggregator.server(round)}
    for client in round.clients:
        try:
            aggregator.check_update(updates[client], round.size)
        except UpdateError as error:
            raise UpdateError(f"client {client}: {error}") from error
        machines[client] = aggregator.client(round, client, updates[client])
    return (transport or InProcessTransport()).run(machines | dict(aggregator.others(round)))
