"""A client on a host of its own: it answers requests, and keeps bytes between them."""

import copy
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from logging import getLogger
from pathlib import Path
from typing import Any

from torch import nn

from extensions import durable
from extensions.errors import ArgumentError, MessageError, UpdateError
from extensions.rules import Whole
from fl.clients import ClientTraining
from fl.remote.envelope import CHALLENGE_BYTES, HELLO, WORK, envelope, packed, signed, unpacked
from fl.remote.links import Link
from fl.round.aggregator import Aggregator
from fl.round.encoding import readable
from fl.round.identities import Identities
from fl.round.machines import Machine, Output, Refusal, Round, Timer, Vector
from fl.round.messages import SERVER, Message
from fl.round.state import VERSION, dump, keyed, keyed_of, load, octets
from fl.training.data import Records
from fl.training.session import SessionClient
from fl.training.settings import RunSettings, as_json
from fl.training.workers import Trainer
from fl.weights import Weights, not_exchanged

LOG = getLogger(__name__)

DIGEST_BYTES = 32
LAST_ROUND = 2**31 - 1
"""A request of a later round changes nothing: no run has as many."""
LOST = "its state of round {} is gone: its process or node was started anew"


@dataclass
class _Kept:
    """What a client keeps between two requests.

    Attributes:
        round: that it takes part in; 0: none yet.
        machine: its state; empty: it has left the round.
        link: its end of the links to other clients.
    """

    round: int = 0
    machine: bytes = b""
    link: Link = field(default_factory=Link.fresh)


@dataclass(kw_only=True, eq=False)
class RemoteClient:
    """One client of a run.

    Guarantees:
        It takes part in every round of a session once, in ascending order of their numbers: a
        server that lost its process, or says so, or that runs two sessions of one name at once, is
        not sent a second update of a round. What it holds the server's
        announcements against are its own settings (`Plan`). It answers whatever bytes it is sent,
        and says why it leaves a round.

    What it gives away grows with the rounds that it answers, whatever the ledger of a server that
    lies says: it knows no number after which a run ends. The last round's number, which `folder`
    has, is at least how many these are.

    Attributes:
        settings: of the run, the same as the server's, without `train`.
        model: its structure, and the values that are not exchanged: of frozen parameters, and of
            statistics that are kept. They must be the server's.
        clients: of the run, how many.
        client: which it is.
        records: its own.
        train: what it does in a round; None: what the settings say.
        identities: keys of all clients, and its own private one; None: none.
        folder: where it notes the rounds that it took part in, for its process and host may be
            started anew; None: in ``fl`` of the user's state folder. Whoever deletes the notes
            makes it forget them.

    Raises:
        ArgumentError: settings, model and records that do not go together; an aggregator that signs
            without `identities`.
    """

    settings: RunSettings
    model: nn.Module
    clients: int
    client: int
    records: Records
    train: ClientTraining | None = None
    identities: Identities | None = None
    folder: Path | None = None

    def __post_init__(self) -> None:
        Whole(0, self.clients - 1).check("client", self.client)
        self.settings = copy.copy(self.settings)
        self.settings.aggregator = own_aggregator(self.settings, self.identities)
        self.settings.check_model(self.model, self.clients)
        kept = not_exchanged(self.model, without=self.settings.parts(self.model).without)
        self.settings.facts = {**self.settings.facts, **kept}
        named = {f"client {self.client}": self.records}
        ((x, y),) = self.settings.checked_records(self.model, named)
        self._records = x, y

    def answer(self, request: bytes, kept: bytes, node: int = 0) -> tuple[bytes, bytes]:
        """Returns the answer to a request, and what to keep until the next; both are bytes.

        Args:
            request: from the server, or from anybody.
            kept: what the last call returned; empty before the first. It holds secrets.
            node: on which this client runs, as the engine calls it.
        """
        try:
            message = Message.decode(request)
            if message.kind == HELLO:
                return self._greet(message, node), kept
            if (message.sender, message.receiver, message.kind) != (SERVER, self.client, WORK):
                raise MessageError(f"a {message.kind!r} that is not the server's for this client")
            if message.round > LAST_ROUND:
                raise MessageError(f"a request of round {message.round}, beyond {LAST_ROUND}")
        except MessageError as error:
            return self._left(0, str(error)), kept
        try:
            return self._work(message, self._state(kept))
        except Exception as error:
            reason = Refusal.by(self.client, error).reason
            number = max(message.round, self._state(kept).round)
            return self._left(message.round, reason), self._keep(_Kept(number))

    def _greet(self, message: Message, node: int) -> bytes:
        challenge = message.body.get("challenge")
        if not isinstance(challenge, bytes) or len(challenge) != CHALLENGE_BYTES:
            raise MessageError("a greeting without a challenge")
        signature = b""
        if self.identities is not None:
            signature = self.identities.signer(self.client).sign(signed(challenge, node))
        count = len(self._records[1])
        return envelope(0, self.client, SERVER, HELLO, records=count, signature=signature)

    def _left(self, number: int, reason: str) -> bytes:
        left = readable(reason)
        return envelope(number, self.client, SERVER, WORK, messages=[], link=b"", left=left)

    def _work(self, request: Message, kept: _Kept) -> tuple[bytes, bytes]:
        now, number = request.real("now"), request.round
        messages = [Message.decode(data) for data in unpacked(request)]
        told = _told(request)
        self.settings.mechanism.hear(self.client, told)
        self._check_settings(told)
        machine = self._machine(number, kept, messages)
        if number > kept.round:
            self._begin(number)
            kept = _Kept(number)
        kept.link.peers |= keyed_of(request, "links") if "links" in request.body else {}
        sent: list[bytes] = []
        for output in self._outputs(machine, messages, kept.link, now):
            if isinstance(output, Refusal):
                return self._left(number, output.reason), self._keep(_Kept(number))
            if isinstance(output, Message):
                outer = output if output.receiver == SERVER else kept.link.seal(output)
                sent.append(outer.encode())
        kept.machine = dump(machine)
        link = kept.link.public if self.settings.aggregator.between_clients else b""
        answer = envelope(
            number, self.client, SERVER, WORK, messages=packed(sent), link=link, left=""
        )
        return answer, self._keep(kept)

    def _check_settings(self, told: Mapping[str, Any]) -> None:
        """Checks that the settings of which the server tells a digest are this client's."""
        own = self.settings.plan(self.clients).settings.hex()
        if told.get("settings", own) != own:
            raise MessageError("the server has other settings of the run than this client")

    def _machine(self, number: int, kept: _Kept, messages: list[Message]) -> Machine:
        """Returns the machine of the round: a new one where the server sends a model."""
        alone = self._alone(number)
        machine = SessionClient(
            alone, self.client, self.settings.aggregator, lambda w: self._update(alone, w), 0.0
        )
        if number < kept.round:
            raise MessageError(f"a request of round {number}, after {kept.round}")
        if number == kept.round:
            if not kept.machine:
                raise MessageError(f"it has left round {number}")
            load(machine, kept.machine)
        elif not messages or messages[0].kind != "model":
            raise MessageError(LOST.format(number))
        return machine

    def _alone(self, number: int) -> Round:
        settings = self.settings
        return Round(
            number=number,
            size=settings.exchanged(self.model) + settings.mechanism.extra_values,
            weights={self.client: settings.weight(len(self._records[1]))},
            plan=settings.plan(self.clients),
        )

    def _update(self, round: Round, received: Weights) -> Vector:
        settings, wanted = self.settings, round.size - self.settings.mechanism.extra_values
        if received.shape != (wanted,):
            raise UpdateError(f"a model of {received.size} values was sent, not of {wanted}")
        training = self.train or settings.training
        parts = settings.parts(self.model)
        told = {self.client: settings.of_client(round.number, self.client)}
        hidden = settings.mechanism.hides_updates
        with Trainer(self.model, training, 1, parts=parts, hidden=hidden) as trainer:
            trained = trainer.train(received, {self.client: self._records}, told)(self.client)
        return settings.update(round, self.client, trained, received)

    def _outputs(
        self, machine: Machine, messages: Iterable[Message], link: Link, now: float
    ) -> Iterator[Output]:
        """Yields what a machine answers; its timers expire at once where they are due."""
        for message in messages:
            opened = message if message.sender < 0 else link.open(message)
            timers: list[Timer] = []
            for output in machine.receive(opened, now):
                if isinstance(output, Timer):
                    timers.append(output)
                yield output
            for timer in timers:
                if timer.at is not None and timer.at <= now:
                    yield from machine.expire(timer.name, now)

    def _state(self, kept: bytes) -> _Kept:
        """Returns what was kept; nothing, where it is damaged or of another version or client."""
        digest, data = kept[:DIGEST_BYTES], kept[DIGEST_BYTES:]
        if hashlib.sha256(data).digest() != digest:
            return _Kept()
        try:
            state = Message.decode(data)
            if (state.sender, state.integer("version")) != (self.client, VERSION):
                return _Kept()
            self.settings.aggregator.keep(self.client, Message.decode(octets(state, "kept")))
            link = Link(octets(state, "link"), keyed_of(state, "peers"))
            return _Kept(state.round, octets(state, "machine"), link)
        except MessageError:
            return _Kept()

    def _keep(self, kept: _Kept) -> bytes:
        aggregator = self.settings.aggregator.kept(self.client)
        own = self.client
        data = envelope(
            kept.round,
            own,
            own,
            "kept",
            version=VERSION,
            machine=kept.machine,
            kept=envelope(0, own, own, "aggregator", **aggregator),
            link=kept.link.private,
            **keyed(kept.link.peers, "peers"),
        )
        return hashlib.sha256(data).digest() + data

    def _session(self) -> dict[str, Any]:
        """Returns what a session is known by: its name, or all settings where it has none."""
        if self.settings.session:
            return {"session": self.settings.session}
        size = self.settings.exchanged(self.model)
        return {**self.settings.facts_of_run(), "parameters": size, "clients": self.clients}

    def _begin(self, number: int) -> None:
        """Notes a round of this session, before anything of it is answered.

        Raises MessageError if it took part in that round or a later one.
        """
        folder = self.folder or durable.state_folder() / "fl"
        digest = hashlib.sha256(as_json(self._session()).encode()).hexdigest()
        notes = folder / f"client-{self.client}-{digest[:16]}"
        try:
            with durable.locked(folder):
                last = int(notes.read_text()) if notes.exists() else 0
                if number <= last:
                    advice = "a new run needs another name, session="
                    raise MessageError(f"it took part in round {last} of this run before: {advice}")
                with durable.write(notes) as file:
                    file.write(str(number).encode())
        except MessageError:
            raise
        except (OSError, ValueError) as error:
            rule = "a folder whose files can be read and written"
            raise ArgumentError("folder", str(folder), rule, code="file") from error


def made(client: int, make: Callable[[], RemoteClient]) -> RemoteClient:
    """Returns the client that `make` makes of its records, where errors are sent to the server.

    Words of whatever it raises may have a value of a record: they are in the client's log, and an
    ArgumentError is raised in its place.
    """
    try:
        return make()
    except Exception as error:
        LOG.error("client %d has no part in the run: %s: %s", client, type(error).__name__, error)
        rule = "a client that its host can set up"
        raise ArgumentError("client", client, rule, "See its own log.") from None


def own_aggregator(settings: RunSettings, identities: Identities | None) -> Aggregator:
    """Returns a copy of the settings' aggregator that knows the clients by these keys.

    The settings stay as they are: where an engine simulates several parties in one process, none
    finds in them what another put there, and they can be sent to further processes. Raises
    ArgumentError if it is not for clients on other hosts, or they sign and there are no keys.
    """
    aggregator = settings.aggregator
    hosts = "because clients are on other hosts"
    if aggregator.hides_model:
        hint = "The server evaluates and saves the model."
        raise ArgumentError("hide_model", True, hosts, hint, code="conflict")
    if aggregator.one_process:
        rule = f"'server' {hosts} and answer its requests"
        raise ArgumentError("led_by", "client", rule, code="choice")
    stateful = getattr(settings.training, "stateful", False)
    if stateful or settings.shared != "all":
        name = "train" if stateful else "shared"
        value = type(settings.training).__name__ if stateful else settings.shared
        hint = "A client that restarts would lose what it keeps between rounds."
        raise ArgumentError(name, value, hosts, hint, code="conflict")
    if aggregator.signs and identities is None:
        rule = f"with {type(aggregator).__name__}, whose clients sign"
        hint = "Type: ssh-keygen -t ecdsa -b 384 -f 0"
        raise ArgumentError("keys", None, rule, hint, code="missing")
    own = copy.deepcopy(aggregator)
    if identities is not None:
        own.identify(identities)
    return own


def _told(request: Message) -> Mapping[str, Any]:
    try:
        told = json.loads(request.text("told", "{}"))
    except (ValueError, RecursionError) as error:
        raise MessageError("the mechanism's message must be JSON") from error
    if not isinstance(told, dict):
        raise MessageError("the mechanism's message needs names")
    return told
