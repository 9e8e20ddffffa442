"""A run of federated averaging whose clients are on other hosts."""

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from cryptography.exceptions import InvalidSignature

from extensions.errors import ArgumentError, MessageError, RoundError
from extensions.rules import POSITIVE, Whole
from fl.remote.client import own_aggregator
from fl.remote.envelope import CHALLENGE_BYTES, HELLO, envelope, signed
from fl.remote.post import Answer, Post
from fl.remote.transport import POLL, RemoteTransport
from fl.round.identities import Identities, KeyFolder
from fl.round.machines import Refusal
from fl.round.messages import SERVER, Message
from fl.round.view import Outcome
from fl.training.callbacks import Callback
from fl.training.course import Course
from fl.training.data import Records
from fl.training.evaluation import Tests
from fl.training.history import History, RoundReport
from fl.training.session import SessionServer

INTERRUPTED = "the server's process ended in it"


@dataclass(kw_only=True, eq=False, repr=False)
class RemoteRun(Course):
    """The server's side of a run.

    Guarantees:
        The machines are those of `FederatedAveraging`: with the same settings, model and records
        the models are equal, bit for bit, unless a mechanism draws noise or the simulation trains
        in cohorts. With `checkpoint` a run
        goes on after its process ended: every number of a round is begun once, and a round that was
        interrupted counts as one that failed. It is charged like any other, and the run goes on
        with the next number, so that clients reveal one sum a round at most, whatever the server
        loses (`RemoteClient`).

    Args:
        model: the model to start from; it is copied, and then the present one.
        rounds: of the whole run.
        clients: of the run, how many, numbered from 0.
        identities: public keys of all clients; None: none.
        checkpoint: a file in which the run is saved before and after every round; None: it is not.
        patience: seconds that the run waits for its clients to be connected, before it goes on with
            those that are.
        clock: seconds; for tests.

    Attributes:
        keys: by client, where its key comes from: "the engine" if that authenticated its node by
            the same key, "files" if the client showed that it has the key, or "none".

    Raises:
        ArgumentError: a setting outside its range, or a protocol with parties besides clients.
    """

    clients: Annotated[int, Whole(1)]
    identities: Identities | None = None
    checkpoint: Path | None = None
    patience: Annotated[float, POSITIVE] = 120.0
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        super().__post_init__()
        self.aggregator = own_aggregator(self, self.identities)
        self.check_model(self.model, self.clients)
        probe = self.announced(1, dict.fromkeys(range(self.clients), 1), self.clients)
        if self.aggregator.others(probe):
            rule = "because clients are on other hosts, and edges have none"
            raise ArgumentError("edges", "some", rule, "Take {edges=0}.", code="conflict")
        self.keys: dict[int, str] = {}
        self._nodes: dict[int, int] = {}
        self._records: dict[int, int] = {}
        self._greeted: set[int] = set()

    def fit(
        self,
        post: Post,
        test_set: Records | None = None,
        *,
        callbacks: Sequence[Callback] = (),
    ) -> History:
        """Runs the rounds that are left, and returns the history of all.

        Args:
            post: of the engine.
            test_set: records by which the model is evaluated after every round; None: it is not.
            callbacks: called after every round, once it is saved.

        Raises:
            RoundError: a round failed, and is not to be skipped; the history has it.
            ArgumentError: no rounds, or a checkpoint of a run with other arguments.
        """
        begins = not self.history.rounds
        if begins and self.checkpoint is not None and self.checkpoint.exists():
            self.load(self.checkpoint)
        tests = Tests(self.model, test_set, {}, self.loss, self.metrics, self.model_of)
        perform = partial(self._round, post)
        return self._rounds(self._remaining(), perform, tests, self._save, callbacks)

    def _save(self) -> None:
        if self.checkpoint is not None:
            self.save(self.checkpoint)

    def _facts(self) -> dict[str, Any]:
        return {"clients": self.clients}

    def _round(self, post: Post) -> RoundError | None:
        number = len(self.history) + 1
        self._greet(post)
        selected = self.select(number, self.clients)
        began = RoundReport(number=number, selected=selected, failure=INTERRUPTED)
        self.history.rounds.append(began)
        nodes = {client: self._nodes[client] for client in selected if client in self._nodes}
        own = {"settings": self.plan(self.clients).settings.hex()}
        told = {client: json.dumps(self.mechanism.tells(client) | own) for client in selected}
        transport = RemoteTransport(
            post,
            nodes,
            told.__getitem__,
            transcript=self.transcript,
            between_clients=self.aggregator.between_clients,
            clock=self.clock,
        )
        absent = [client for client in selected if client not in nodes]
        transport.refusals += [Refusal(client, "it is not connected") for client in absent]
        exchange = partial(self._exchange, number, nodes, transport)
        self.history.rounds[-1], failure = self._reported(number, selected, transport, exchange)
        return failure

    def _exchange(self, number: int, nodes: dict[int, int], transport: RemoteTransport) -> Outcome:
        """Runs a round, and changes the model if all of it succeeded."""
        weights = self._weights()
        try:
            counts = {client: self.weight(self._records[client]) for client in nodes}
            round = self.announced(number, self._fitting(counts, transport), self.clients)
            self.aggregator.check_round(round)
        except ArgumentError as error:
            raise RoundError(number, str(error)) from error
        self.mechanism.charge(round, self.clients)
        self._save()
        server = SessionServer(round, weights, self.aggregator, (), self.timeout)
        outcome = transport.run(server)
        self._advance(weights, outcome, round)
        return outcome

    def _fitting(self, counts: Mapping[int, int], transport: RemoteTransport) -> Mapping[int, int]:
        """Returns the weights of a round, without the largest if they are beyond the aggregator.

        Clients state their numbers of records themselves: none of them can end a round by its own.
        """
        left, refusals = dict(counts), []
        while left:
            try:
                self.aggregator.check_weights(left.values())
            except ArgumentError:
                largest = max(left, key=left.__getitem__)
                reason = f"its weight of {left.pop(largest)} is more than sums have room for"
                refusals.append(Refusal(largest, reason))
                continue
            transport.refusals += refusals
            return left
        return counts

    def _greet(self, post: Post) -> None:
        """Asks new nodes who they are, and waits for clients that have not been there yet."""
        challenges: dict[int, bytes] = {}
        until = self.clock() + self.patience
        first = not self._nodes
        while True:
            new = [node for node in post.nodes() if node not in self._greeted]
            for node in new:
                challenges[node] = os.urandom(CHALLENGE_BYTES)
                hello = envelope(0, SERVER, 0, HELLO, challenge=challenges[node])
                post.send([(node, hello)])
                self._greeted.add(node)
            waiting = set(challenges) - set(self._nodes.values())
            missing = first and len(self._nodes) < self.clients
            if not (waiting or missing) or self.clock() >= until:
                return
            for answer in post.collect(POLL):
                if answer.node in challenges and not self._know(answer, challenges, post):
                    challenges.pop(answer.node)

    def _know(self, answer: Answer, challenges: dict[int, bytes], post: Post) -> bool:
        """Returns whether a node has shown whose part it runs, and takes note of it."""
        if answer.data is None:
            return False
        try:
            reply = Message.decode(answer.data)
            client, records = reply.sender, reply.integer("records")
            if reply.kind != HELLO or not 0 <= client < self.clients or records < 1:
                return False
            source = self._source(reply, answer.node, challenges[answer.node], post)
        except (MessageError, InvalidSignature, ArgumentError):
            return False
        self.keys[client], self._nodes[client] = source, answer.node
        self._records[client] = records
        return True

    def _source(self, reply: Message, node: int, challenge: bytes, post: Post) -> str:
        """Returns where the key comes from by which a client shows that it is on a node.

        Raises InvalidSignature if it does not, MessageError if the engine has another client's key.
        """
        if self.identities is None:
            return "none"
        signature = reply.body.get("signature")
        if not isinstance(signature, bytes):
            raise InvalidSignature
        self.identities.verifier(reply.sender).verify(signature, signed(challenge, node))
        owner = post.owner(node)
        if owner is None or not isinstance(self.identities, KeyFolder):
            return "files"
        known = self.identities.client_of(owner)
        if known is None:
            return "files"
        if known != reply.sender:
            raise MessageError(f"the engine knows the node as client {known}'s")
        return "the engine"
