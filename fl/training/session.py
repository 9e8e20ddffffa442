"""One whole round: the server sends the model, clients train, and those who are ready aggregate.

| kind | from | holds |
| --- | --- | --- |
| model | server to each selected client | values: weights in single precision |
| ready | client to server | nothing: it has an update |
| withdraw | client to server | reason: why it has none; no value of it |
| begin | server to all who take part | clients and weights: the public list of who takes part |

Then each machine becomes that of the aggregator, with a `Round` of those clients alone. What a
client was told is held against what it knows: its own weight, and the run's plan. The round's
context is a digest of the run's settings and of the model as the party has it, so that a protocol
with signatures never sums the updates of clients who were sent different models.
"""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

import numpy as np

from extensions.errors import ArgumentError, MessageError, UpdateError
from fl.round.aggregator import Aggregator
from fl.round.encoding import readable
from fl.round.machines import Machine, Output, Refusal, Round, Timer, Vector, keep
from fl.round.messages import SERVER, Message, Party, Value
from fl.round.state import dump, listed, load, messages, numbers, octets
from fl.weights import Weights

TRAINING = "training"

Train = Callable[[Weights], Vector]
"""From the model's weights to the client's update; raises UpdateError to withdraw."""


class SessionServer(Machine):
    """The server's part: `round` has all selected clients, who have `timeout` seconds to train."""

    def __init__(
        self,
        round: Round,
        weights: Weights,
        aggregator: Aggregator,
        others: Iterable[Party],
        timeout: float,
    ) -> None:
        super().__init__(round, SERVER)
        self._weights = weights
        self._aggregator = aggregator
        self._others = tuple(others)
        self._timeout = timeout
        self._waiting = set(round.clients)
        self._ready: set[int] = set()
        self._inner: Machine | None = None

    def start(self, now: float) -> Iterable[Output]:
        for client in self.round.clients:
            yield self.send(client, "model", values=self._weights)
        yield Timer(TRAINING, now + self._timeout)

    def receive(self, message: Message, now: float) -> Iterable[Output]:
        client = message.sender
        if self._inner is not None:
            if client in self._ready or client in self._others:
                yield from self._inner.receive(message, now)
            return
        if client not in self._waiting:
            return
        self._waiting.remove(client)
        try:
            self.check_round(message)
            if message.kind == "withdraw":
                raise MessageError(message.text("reason", "no reason given"))
            if message.kind != "ready":
                raise MessageError(f"a message of kind {message.kind!r} before the round began")
            self._ready.add(client)
        except MessageError as error:
            yield Refusal(client, str(error))
        if not self._waiting:
            yield from self._begin(now)

    def expire(self, timer: str, now: float) -> Iterable[Output]:
        if self._inner is not None:
            yield from self._inner.expire(timer, now)
            return
        for client in sorted(self._waiting):
            yield Refusal(client, f"not trained within {self._timeout:g} s")
        self._waiting.clear()
        yield from self._begin(now)

    def _begin(self, now: float) -> Iterable[Output]:
        plan = self.round.plan
        fewest = self._aggregator.fewest(0 if plan is None else plan.cohort)
        if len(self._ready) < fewest:
            raise self.failure(f"{len(self._ready)} clients are ready, of at least {fewest}.")
        yield Timer(TRAINING, None)
        weights = {k: w for k, w in self.round.weights.items() if k in self._ready}
        members = _bound(replace(self.round, weights=weights), self._weights)
        clients = np.array(members.clients, dtype=np.int64)
        counts = np.array([members.weights[k] for k in members.clients], dtype=np.int64)
        for party in (*members.clients, *self._others):
            yield self.send(party, "begin", clients=clients, weights=counts)
        self._inner = self._aggregator.server(members)
        yield from self._inner.start(now)


class SessionMember(Machine):
    """The part of a party that waits for "begin" and then runs its machine of the protocol.

    Messages that its peers send earlier are kept until then.
    """

    def __init__(self, round: Round, party: Party, aggregator: Aggregator) -> None:
        super().__init__(round, party)
        self._aggregator = aggregator
        self._inner: Machine | None = None
        self._early: list[Message] = []

    def receive(self, message: Message, now: float) -> Iterable[Output]:
        if self._inner is not None:
            yield from self._inner.receive(message, now)
        elif (message.sender, message.kind) == (SERVER, "begin"):
            try:
                self._inner = self._member(_announced(message, self.round))
            except (MessageError, ArgumentError) as error:
                yield Refusal(self.party, str(error))
                return
            yield from self._inner.start(now)
            waiting, self._early = self._early, []
            for early in waiting:
                yield from self._inner.receive(early, now)
        else:
            keep(self._early, message)

    def state(self) -> dict[str, Value]:
        kept: dict[str, Value] = {"early": listed(self._early)}
        if self._inner is None:
            return kept
        weights = self._inner.round.weights
        counts = np.array(list(weights.values()), dtype=np.int64)
        return kept | {
            "clients": numbers(weights),
            "weights": counts,
            "inner": dump(self._inner),
        }

    def restore(self, state: Message) -> None:
        self._early = messages(state, "early")
        if "inner" in state.body:
            self._inner = self._member(_announced(state, self.round))
            load(self._inner, octets(state, "inner"))

    def _member(self, round: Round) -> Machine:
        """Returns this party's machine of the protocol, for the round that begins."""
        return self._aggregator.others(round)[self.party]

    def expire(self, timer: str, now: float) -> Iterable[Output]:
        if self._inner is not None:
            yield from self._inner.expire(timer, now)


class SessionClient(SessionMember):
    """A client's part: it trains, says that it is ready or why it withdraws, and takes part."""

    def __init__(
        self, round: Round, client: int, aggregator: Aggregator, train: Train, seconds: float
    ) -> None:
        super().__init__(round, client, aggregator)
        self._train = train
        self._seconds = seconds
        self._model: Weights | None = None
        self._update: Vector | None = None

    def state(self) -> dict[str, Value]:
        kept = {"model": self._model, "update": self._update}
        return super().state() | {k: row for k, row in kept.items() if row is not None}

    def restore(self, state: Message) -> None:
        if "model" in state.body:
            self._model = state.array("model", np.float32, (-1,))
        if "update" in state.body:
            self._update = state.array("update", np.float64, (-1,))
        super().restore(state)

    def _member(self, round: Round) -> Machine:
        if self._update is None or self._model is None or self.party not in round.weights:
            raise MessageError("'begin' of a round in which this client takes no part")
        own, given = self.round.weights[self.party], round.weights[self.party]
        if given != own:
            raise MessageError(f"'begin' gives this client a weight of {given}, not its own {own}")
        self._aggregator.check_round(round)
        return self._aggregator.client(_bound(round, self._model), self.party, self._update)

    def receive(self, message: Message, now: float) -> Iterable[Output]:
        if self._model is None and (message.sender, message.kind) == (SERVER, "model"):
            try:
                self._model = message.array("values", np.float32, (-1,))
            except MessageError as error:
                yield Refusal(self.party, str(error))
                return
            yield Timer(TRAINING, now + self._seconds)
        else:
            yield from super().receive(message, now)

    def expire(self, timer: str, now: float) -> Iterable[Output]:
        if self._update is not None or self._model is None:
            yield from super().expire(timer, now)
            return
        try:
            update = self._train(self._model)
            self._aggregator.check_update(update, self.round.size)
        except UpdateError as error:
            yield self.send(SERVER, "withdraw", reason=readable(str(error)))
            return
        self._update = update
        yield self.send(SERVER, "ready")


def session_machines(
    round: Round,
    weights: Weights,
    aggregator: Aggregator,
    update: Callable[[int, Weights], Vector],
    *,
    timeout: float,
    training_seconds: float,
) -> dict[Party, Machine]:
    """Returns the machine of every party of a whole round of all selected clients.

    `update` makes a client's update of the model's weights as it received them, or raises
    UpdateError to withdraw. Clients have `timeout` seconds to receive the model and train.
    """
    own = aggregator.session(
        round, weights, update, timeout=timeout, training_seconds=training_seconds
    )
    if own is not None:
        return dict(own)
    others = aggregator.others(round)
    machines: dict[Party, Machine] = {
        SERVER: SessionServer(round, weights, aggregator, others, timeout)
    }
    for party in others:
        machines[party] = SessionMember(round, party, aggregator)
    for client in round.clients:
        alone = replace(round, weights={client: round.weights[client]})
        train = partial(update, client)
        machines[client] = SessionClient(alone, client, aggregator, train, training_seconds)
    return machines


def _announced(message: Message, before: Round) -> Round:
    clients = message.array("clients", np.int64, (-1,))
    weights = message.array("weights", np.int64, clients.shape)
    listed = dict(zip(clients.tolist(), weights.tolist(), strict=True))
    if len(listed) < len(clients):
        raise MessageError("'begin' lists a client twice")
    return replace(before, weights=listed)


def _bound(round: Round, model: Weights) -> Round:
    """Returns the round with a context of the run's settings and of this model."""
    settings = b"" if round.plan is None else round.plan.settings
    digest = hashlib.sha256(len(settings).to_bytes(8) + settings + model.tobytes())
    return replace(round, context=digest.digest())
