"""An engine in one process: it carries bytes between a `RemoteRun` and `RemoteClient`s.

Clients are made anew for every request, from what they kept, as in an engine that starts a process
for each. Nodes can vanish, lose what they kept, or answer what nobody asked.
"""

import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

import fl
from fl.protocols import Message
from fl.remote.client import RemoteClient
from fl.remote.post import Answer, Post
from fl.remote.run import RemoteRun
from fl.round.identities import FreshIdentities, Identities
from fl.training.settings import RunSettings
from tests.helpers.federated.carriers import Clock

X, Y = load_digits(return_X_y=True)
CLIENTS = 5
RECORDS = fl.partition((X[:100] / 16, Y[:100]), CLIENTS)
TEST = (X[100:200] / 16, Y[100:200])
USUAL = {"client_fraction": 1.0, "local_epochs": 1, "batch_size": 4}
FIRST_NODE = 1000

Settings = Callable[[], dict[str, object]]
Tamper = Callable[[int, bytes, bytes], bytes | None]


def mlp() -> nn.Module:
    torch.manual_seed(1)
    return fl.models.mlp(64, 8, 10)


@dataclass
class Local(Post):
    """Nodes in this process.

    Attributes:
        client: makes the client of a number.
        clock: advanced while nothing is under way.
        asks: says whether a node still answers a request; it gets its kinds of messages.
        tamper: replaces an answer, or drops it.
        kept: by node, what its client keeps.
        requests: all that were sent, by node.
    """

    client: Callable[[int], RemoteClient]
    clock: Clock
    asks: Callable[[int, list[str]], bool] = lambda client, kinds: True
    tamper: Tamper = lambda client, request, answer: answer
    clients: int = CLIENTS
    kept: dict[int, bytes] = field(default_factory=dict)
    requests: list[tuple[int, bytes]] = field(default_factory=list)
    dead: set[int] = field(default_factory=set)
    _answers: list[Answer] = field(default_factory=list)

    def nodes(self) -> Iterable[int]:
        return [FIRST_NODE + k for k in range(self.clients) if FIRST_NODE + k not in self.dead]

    def send(self, requests: Iterable[tuple[int, bytes]]) -> None:
        for node, request in requests:
            client = node - FIRST_NODE
            self.requests.append((client, request))
            if node in self.dead or not self.asks(client, kinds(request)):
                self.dead.add(node)
                continue
            answer, self.kept[node] = self.client(client).answer(
                request, self.kept.get(node, b""), node
            )
            tampered = self.tamper(client, request, answer)
            if tampered is not None:
                self._answers.append(Answer(node, tampered))

    def collect(self, wait: float) -> Iterable[Answer]:
        found, self._answers = self._answers, []
        if not found:
            self.clock.now += wait
        return found


def kinds(request: bytes) -> list[str]:
    """Returns the kinds of the messages in a request."""
    outer = Message.decode(request)
    return [Message.decode(data).kind for data in outer.body.get("messages", [])]  # type: ignore


def remote(
    settings: Settings,
    *,
    rounds: int = 2,
    identities: Identities | None = None,
    folder: Path | None = None,
    session: str | None = None,
    checkpoint: Path | None = None,
    **nodes: object,
) -> tuple[RemoteRun, Local]:
    """Returns a run whose clients are in this process, and its post.

    Args:
        settings: makes those of one party; parties share no object.
        rounds: of the run.
        identities: of all.
        folder: in which clients note their rounds; the user's state folder unless given.
        session: name of the run; new in every call unless it is given, or `folder` is.
        checkpoint: of the server.
        nodes: of `Local`.
    """
    known = identities or FreshIdentities()
    name = session or ("" if folder else secrets.token_hex(8))
    usual = USUAL | {"session": name}
    clock = Clock()

    def client(number: int) -> RemoteClient:
        return RemoteClient(
            settings=RunSettings(**(usual | settings())),  # type: ignore[arg-type]
            model=mlp(),
            clients=CLIENTS,
            client=number,
            records=RECORDS[number],
            identities=known,
            folder=folder,
        )

    run = RemoteRun(
        model=mlp(),
        rounds=rounds,
        clients=CLIENTS,
        identities=known,
        checkpoint=checkpoint,
        clock=clock,
        patience=5.0,
        **(usual | settings()),  # type: ignore[arg-type]
    )
    return run, Local(client, clock, **nodes)  # type: ignore[arg-type]


def simulated(settings: Settings, rounds: int = 2, **more: object) -> fl.FederatedAveraging:
    """Returns the same run as a simulation, after its rounds; clients train one by one."""
    given = USUAL | {"cohorts": False} | settings() | more
    run = fl.FederatedAveraging(model=mlp(), clients=RECORDS, **given)  # type: ignore[arg-type]
    run.fit(rounds, TEST, progress=False)
    return run


def weights(run: fl.FederatedAveraging | RemoteRun) -> np.ndarray:
    """Returns the model of a run."""
    return run._weights()
