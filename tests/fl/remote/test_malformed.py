"""Malformed requests and answers, of every aggregator at every stage: nobody crashes.

A forged message is a true one with some of its bytes changed, or one whose values, or those of a
message in it, are others.
"""

import copy
import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

import fl
import fl.remote.run
from extensions.errors import RoundError
from fl.protocols import Message
from fl.remote.client import RemoteClient
from fl.remote.envelope import HELLO, packed, unpacked
from fl.remote.post import Answer
from fl.remote.transport import RemoteTransport
from fl.round.encoding import SHOWN
from tests.fl.remote.test_remote import AGGREGATORS, of
from tests.helpers.federated.fuzzing import forge
from tests.helpers.federated.remote import FIRST_NODE, Local, kinds, remote

FEW, MANY = 120, 10_000
"""Forged messages to each handler: by default, and in the long tests."""
long = pytest.mark.long
COUNTS = [pytest.param(FEW, id="few"), pytest.param(MANY, id="many", marks=long)]


@dataclass
class Recorded:
    """An honest round.

    Attributes:
        asked: of every request the client, the bytes, and what the client kept until then.
        answered: of every answer the transport as it was before, and the answer.
    """

    post: Local
    run: fl.remote.run.RemoteRun
    asked: list[tuple[int, bytes, bytes]] = field(default_factory=list)
    answered: list[tuple[RemoteTransport, Answer]] = field(default_factory=list)


def shared(transport: RemoteTransport) -> dict[int, object]:
    """Returns, for `copy.deepcopy`, what copies of a transport have in common."""
    machine = transport._machine
    common = [transport._post, machine._aggregator, transport._clock, transport._told]
    inner = getattr(machine, "_inner", None)
    common += [inner._terms] if hasattr(inner, "_terms") else []
    return {id(each): each for each in common}


def recorded(name: str, monkeypatch: pytest.MonkeyPatch) -> Recorded:
    made: Recorded

    class Watched(RemoteTransport):
        def _take(self, answer: Answer) -> None:
            made.answered.append((copy.deepcopy(self, shared(self)), answer))
            super()._take(answer)

    def asks(client: int, asked: list[str]) -> bool:
        kept = post.kept.get(FIRST_NODE + client, b"")
        made.asked.append((client, post.requests[-1][1], kept))
        return True

    monkeypatch.setattr(fl.remote.run, "RemoteTransport", Watched)
    monkeypatch.setattr(RemoteClient, "_update", lambda self, round, w: np.zeros(round.size))
    run, post = remote(of(name), rounds=1, asks=asks)
    made = Recorded(post, run)
    run.fit(post)
    return made


def mutated(data: bytes, draws: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(draws.randrange(1, 4)):
        at = draws.randrange(len(changed))
        match draws.randrange(3):
            case 0:
                changed[at] = draws.randrange(256)
            case 1:
                del changed[at + 1 :]
            case _:
                changed[at:at] = draws.randbytes(draws.randrange(1, 9))
    return bytes(changed)


def forged(data: bytes, seen: list[Message], draws: random.Random) -> bytes:
    """Returns bytes in the place of a true envelope."""
    outer = Message.decode(data)
    inner = [Message.decode(each) for each in unpacked(outer)] if outer.kind != HELLO else []
    match draws.randrange(3):
        case 0:
            return mutated(data, draws)
        case 1 if inner:
            place = draws.randrange(len(inner))
            inner[place] = forge(inner[place], [*inner, *seen], draws)
            body = {**outer.body, "messages": packed([each.encode() for each in inner])}
            return replace(outer, body=body).encode()
        case _:
            return forge(outer, [outer], draws).encode()


def all_inner(envelopes: Iterator[bytes]) -> list[Message]:
    outers = [Message.decode(data) for data in envelopes]
    return [
        Message.decode(each) for outer in outers if outer.kind != HELLO for each in unpacked(outer)
    ]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", AGGREGATORS)
def test_malformed_requests_crash_no_client(name, count, monkeypatch):
    """Whatever bytes come, a client answers with bytes, and keeps bytes with which it goes on."""
    found, draws = recorded(name, monkeypatch), random.Random(f"{name} requests")
    seen = all_inner(request for _, request, _ in found.asked)
    clients = {k: found.post.client(k) for k in {client for client, *_ in found.asked}}
    left = 0
    for _ in range(count):
        client, request, kept = draws.choice(found.asked)
        node = FIRST_NODE + client
        answer, after = clients[client].answer(forged(request, seen, draws), kept, node)
        reply = Message.decode(answer)
        assert reply.sender == client
        reason = reply.text("left", "")
        assert len(reason) <= SHOWN
        assert reason.isprintable()
        left += bool(reason)
        again = Message.decode(clients[client].answer(request, after, node)[0])
        assert again.sender == client
    assert left > count / 3


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", AGGREGATORS)
def test_malformed_answers_crash_no_server_and_name_their_sender_alone(name, count, monkeypatch):
    """But on chains, where what clients report of each other is believed."""
    found, draws = recorded(name, monkeypatch), random.Random(f"{name} answers")
    seen = all_inner(answer.data for _, answer in found.answered if answer.data)
    named = 0
    for _ in range(count):
        before, answer = draws.choice(found.answered)
        transport = copy.deepcopy(before, shared(before))
        client = answer.node - FIRST_NODE
        data = forged(answer.data or b"", seen, draws)
        with suppress(RoundError):
            RemoteTransport._take(transport, Answer(answer.node, data))
        refused = {refusal.client for refusal in transport.refusals}
        assert refused <= {client} or name.startswith("chain"), transport.refusals
        assert all(r.reason.isprintable() and len(r.reason) <= SHOWN for r in transport.refusals)
        named += client in refused
    assert named > count / 3


@pytest.mark.parametrize("count", COUNTS)
def test_malformed_greetings_make_nobody_a_client(count, monkeypatch):
    """A node is a client's by its signature under the challenge, and by nothing else."""
    found, draws = recorded("masked", monkeypatch), random.Random("greetings")
    run, known = found.run, 0
    for _ in range(count):
        client = draws.randrange(5)
        node, challenge = FIRST_NODE + client, draws.randbytes(32)
        hello = Message(round=0, sender=-1, receiver=0, kind=HELLO, body={"challenge": challenge})
        answer, _ = found.post.client(client).answer(hello.encode(), b"", node)
        run.keys.clear()
        data = forged(answer, [], draws)
        if run._know(Answer(node, data), {node: challenge}, found.post):
            assert set(run.keys) == {client}
            assert (
                Message.decode(data).body["signature"] == Message.decode(answer).body["signature"]
            )
            known += 1
    assert known < count / 2


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", AGGREGATORS)
def test_a_client_with_damaged_state_leaves_the_round(name, count, monkeypatch):
    """As one does that has lost it; a request that needs none is answered all the same."""
    found, draws = recorded(name, monkeypatch), random.Random(f"{name} states")
    clients = {k: found.post.client(k) for k in {client for client, *_ in found.asked}}
    needing = [each for each in found.asked if each[2] and "model" not in kinds(each[1])]
    for _ in range(count):
        client, request, kept = draws.choice(needing)
        damaged = mutated(kept, draws)
        answer, _ = clients[client].answer(request, damaged, FIRST_NODE + client)
        reply = Message.decode(answer)
        assert reply.sender == client
        assert damaged == kept or "is gone" in reply.text("left", "")
