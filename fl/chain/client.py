"""A client of a chain: it adds its update to the token and hands it on."""

import secrets
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

import numpy as np

from extensions.errors import MessageError
from fl.chain.complaint import Complaint
from fl.chain.token import Token, link_keys
from fl.round.machines import Machine, Output, Round, keep
from fl.round.messages import SERVER, Message, Party, Value, party_name
from fl.round.quantization import RingVector
from fl.round.state import keyed, keyed_of, listed, messages, numbers

Neighbours = Callable[[int], Collection[int]]
"""From a client to those that it can reach."""


class ChainClient(Machine):
    """A client's part; `encoded` is its weighted update. Without `neighbours` it reaches all."""

    def __init__(
        self,
        round: Round,
        client: int,
        encoded: RingVector,
        neighbours: Neighbours | None,
        edges: Collection[Party],
    ) -> None:
        super().__init__(round, client)
        self._encoded = encoded
        self._reach = frozenset(round.clients if neighbours is None else neighbours(client))
        self._collectors = frozenset({SERVER, *edges})
        self._collector: Party = SERVER
        self._sending: Mapping[Party, bytes] = {}
        self._receiving: Mapping[Party, bytes] = {}
        self._early: list[Message] = []
        self._announced = False
        self._attempt = 0
        self._lost: set[int] = set()
        self._held: dict[int, Token] = {}

    def state(self) -> dict[str, Value]:
        kept: dict[str, Value] = {
            "early": listed(self._early),
            "announced": int(self._announced),
            "attempt": self._attempt,
            "lost": numbers(self._lost),
            "held": [token.kept(self) for token in self._held.values()],
        }
        if self._announced:
            kept |= {
                "chain": self._chain,
                "members": numbers(self._members),
                "time_limit": self._time_limit,
                "collector": self._collector,
                **keyed(self._sending, "sending"),
                **keyed(self._receiving, "receiving"),
            }
        return kept

    def restore(self, state: Message) -> None:
        self._early = messages(state, "early")
        self._announced = bool(state.integer("announced"))
        self._attempt = state.integer("attempt")
        self._lost = set(state.clients("lost"))
        if self._announced:
            self._chain, self._members = state.integer("chain"), state.clients("members")
            self._time_limit = state.real("time_limit")
            self._collector = state.integer("collector")
            self._sending = keyed_of(state, "sending")
            self._receiving = keyed_of(state, "receiving")
        held = [Token.of(each, self, self._encoded.dtype) for each in messages(state, "held")]
        self._held = {token.attempt: token for token in held}

    def receive(self, message: Message, now: float) -> Iterable[Output]:
        kind = (message.sender == SERVER, message.kind)
        try:
            if kind == (True, "chain"):
                self._announce(message)
                yield from self._take_early(now)
            elif not self._announced:
                keep(self._early, message)
            elif kind == (True, "again"):
                yield from self._again(message, now)
            elif message.kind == "token":
                yield from self._take(message, now)
            else:
                raise MessageError(f"a message of kind {message.kind!r}, not a token")
        except MessageError as error:
            yield self._refuse(message, str(error))

    def _refuse(self, message: Message, reason: str, token: Token | None = None) -> Message:
        """Returns a complaint about a message; `token` is what it holds if its tag is right."""
        return Complaint(
            culprit=message.sender,
            reason=reason,
            known=self._attempt,
            attempt=self._attempt if token is None else token.attempt,
            users=() if token is None else token.users,
        ).message(self)

    def _take_early(self, now: float) -> Iterable[Output]:
        early, self._early = self._early, []
        for message in early:
            yield from self.receive(message, now)

    def _announce(self, message: Message) -> None:
        if self._announced:
            raise MessageError("a second chain for one round")
        self._chain = message.integer("chain")
        self._members = message.clients("members")
        self._time_limit = message.real("time_limit")
        self._collector = message.integer("collector")
        self._sending = link_keys(message, "sending")
        self._receiving = link_keys(message, "receiving")
        if not {self.party} <= set(self._members) <= set(self.round.clients):
            raise MessageError("a chain of clients who take no part, or without this one")
        if self._collector not in self._collectors:
            raise MessageError(f"a chain that ends at {party_name(self._collector)}")
        if not {*self._members, self._collector} - {self.party} <= set(self._sending):
            raise MessageError("a chain without keys for all of its clients")
        self._announced = True

    def _take(self, message: Message, now: float) -> Iterable[Output]:
        key = self._receiving.get(message.sender)
        token = Token.read(message, self, key, self._encoded.dtype)
        if token.chain != self._chain or not set(token.users) <= set(self._members):
            raise MessageError(f"a token of chain {token.chain}, not {self._chain}")
        terms = (token.participants, token.time_limit)
        if terms != (len(self._members), self._time_limit):
            raise MessageError("a token with terms other than the server announced")
        if token.attempt < 0:
            raise MessageError(f"a token of attempt {token.attempt}, which must be at least 0")
        if message.sender in self._lost:
            return
        if token.attempt > self._attempt:
            keep(self._early, message)
            yield self._refuse(message, f"a token of attempt {token.attempt}, too early", token)
        elif token.attempt in self._held or self.party in token.users:
            yield self._refuse(message, f"a second token of attempt {token.attempt}", token)
        elif token.attempt == self._attempt:
            total = token.values + self._encoded
            own = replace(token, values=total, users=(*token.users, self.party))
            self._held[token.attempt] = own
            yield from self._pass_on(own, now)

    def _again(self, message: Message, now: float) -> Iterable[Output]:
        """Notes which clients were lost, and reissues the token if the server asks for it."""
        attempt = message.integer("attempt")
        if attempt < self._attempt:
            return
        self._attempt = attempt
        self._lost.update(message.clients("lost"))
        own = self._held.get(message.integer("held"))
        if message.integer("holder") == self.party and own is not None:
            own = self._held[attempt] = replace(own, attempt=attempt)
            yield from self._pass_on(own, now)
        yield from self._take_early(now)

    def _pass_on(self, token: Token, now: float) -> Iterable[Output]:
        closed = {*token.users, *self._lost}
        following = [k for k in self._members if k in self._reach and k not in closed]
        enough = len(token.users) >= 2
        users = np.array(token.users, dtype=np.int64)
        if following and not (enough and now >= token.time_limit):
            receiver: Party = secrets.choice(following)
            kind = "token"
        elif enough:
            receiver, kind = self._collector, "sum"
        else:
            yield self.send(SERVER, "stuck", attempt=token.attempt, users=users)
            return
        yield token.message(self, receiver, kind, self._sending[receiver])
        if receiver != SERVER:
            yield self.send(SERVER, "passed", attempt=token.attempt, users=users, receiver=receiver)
