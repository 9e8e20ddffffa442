"""One round of secure aggregation by real parties whose server is a process of its own."""

import resource
import sys
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import fl
from fl.masked.stages import STAGE
from fl.protocols import Aggregate, Message, Output, Round, Vector
from fl.round.identities import FreshIdentities, KeyFolder
from fl.round.state import dump, load

BITS = 32
"""Of the ring; the range of a value is 8."""
DEALT = "sealed"
"""What clients that are lost get last: they have dealt shares, and their masks must be found."""
LOST_SEED, VALUES_SEED = 2, 1


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What a round is.

    Attributes:
        clients: how many begin.
        values: of an update.
        corrupt: share of the clients that may side with it.
        dropping: share that may be lost, and is.
    """

    clients: int
    values: int
    corrupt: float
    dropping: float

    @property
    def round(self) -> Round:
        """Its clients, of equal weights."""
        return Round(number=1, size=self.values, weights=dict.fromkeys(range(self.clients), 1))

    def lost(self) -> frozenset[int]:
        """Returns who is gone when shares are dealt, which costs the others and the server most."""
        order = np.random.default_rng(LOST_SEED).permutation(self.clients)
        return frozenset(order[: int(self.dropping * self.clients)].tolist())

    def update(self, client: int) -> Vector:
        """Returns the update of a client, (values,)."""
        return np.random.default_rng([VALUES_SEED, client]).uniform(-1.0, 1.0, self.values)

    def aggregator(self, keys: Path | None = None) -> fl.MaskedAggregator:
        """Returns the aggregator, with as many fractional bits as sums of so many clients leave."""
        bits = min(18, BITS - 1 - int(np.ceil(np.log2(8.0 * self.clients + 1))))
        return fl.MaskedAggregator(
            fixed_point=fl.FixedPoint(bits=BITS, frac_bits=bits, clip=8.0),
            graph=fl.SparseGraph(corrupt=self.corrupt, dropping=self.dropping),
            identities=FreshIdentities() if keys is None else KeyFolder(keys),
        )


@dataclass(kw_only=True)
class Served:
    """The server's result, and what it took: processor time, decoding and encoding included.

    Before the round, and at most, its process had so many MB.
    """

    aggregate: Aggregate
    seconds: float
    before: float
    peak: float


@dataclass(kw_only=True)
class Done:
    """What a round took.

    Attributes:
        served: the server's part.
        seconds: by client, of processor time, all that it does with its update.
        traffic: by client, bytes that it sent and got.
        error: largest error of the mean.
    """

    served: Served
    seconds: dict[int, float]
    traffic: dict[int, int]
    error: float


def perform(setting: Setting) -> Done:
    """Returns what a round takes of all parties, who verify all for themselves."""
    context = get_context("spawn")
    with TemporaryDirectory() as folder:
        deal_keys(Path(folder), setting.clients)
        ours, theirs = context.Pipe()
        arguments = theirs, setting, Path(folder)
        server = context.Process(target=_serve, args=arguments, daemon=True)
        server.start()
        theirs.close()
        try:
            return _Clients(setting, setting.aggregator(Path(folder)), ours).run()
        finally:
            ours.close()
            server.join()


def deal_keys(folder: Path, clients: int) -> None:
    """Writes an Ed25519 key of each client into a folder, as `KeyFolder` reads them."""
    openssh = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    private = serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH
    for client in range(clients):
        key = Ed25519PrivateKey.generate()
        secret = key.private_bytes(*private, serialization.NoEncryption())
        (folder / str(client)).write_bytes(secret)
        (folder / f"{client}.pub").write_bytes(key.public_key().public_bytes(*openssh))


def _serve(link: Connection, setting: Setting, keys: Path) -> None:
    """Answers each message with all that the server then sends; no bytes: its timer expires."""
    machine = setting.aggregator(keys).server(setting.round)
    before, began = _peak(), time.process_time()
    outputs = machine.start(0.0)
    while True:
        sent: list[bytes] = []
        for output in outputs:
            if isinstance(output, Message):
                sent.append(output.encode())
            if isinstance(output, Aggregate):
                seconds = time.process_time() - began
                link.send(Served(aggregate=output, seconds=seconds, before=before, peak=_peak()))
                return
        link.send(sent)
        data = link.recv_bytes()
        outputs = machine.receive(Message.decode(data), 0.0) if data else machine.expire(STAGE, 0.0)


def _peak() -> float:
    """Returns the largest memory that this process had so far, in MB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


@dataclass
class _Clients:
    """All clients of a round. Each is made anew for every message, from what it kept."""

    setting: Setting
    aggregator: fl.MaskedAggregator
    link: Connection
    kept: dict[int, bytes] = field(default_factory=dict)
    seconds: dict[int, float] = field(default_factory=dict)
    traffic: dict[int, int] = field(default_factory=dict)

    def run(self) -> Done:
        waiting: deque[bytes] = deque(self.link.recv())
        lost, total = self.setting.lost(), np.zeros(self.setting.values)
        for client in self.setting.round.clients:
            self.seconds[client] = self.traffic[client] = 0
            waiting.extend(self._told(self._does(client, None)))
        while True:
            if not waiting:
                answer = self._told(b"")
            else:
                data = waiting.popleft()
                message = Message.decode(data)
                client = message.receiver
                self.traffic[client] += len(data)
                if client in lost and message.kind == DEALT:
                    continue
                answer = self._told(self._does(client, message))
                if message.kind == DEALT:
                    total += self.setting.update(client)
            if isinstance(answer, Served):
                break
            waiting.extend(answer)
        mean = total / len(answer.aggregate.included)
        error = float(np.abs(answer.aggregate.mean - mean).max())
        return Done(served=answer, seconds=self.seconds, traffic=self.traffic, error=error)

    def _told(self, data: bytes) -> Any:
        """Returns what the server sends once it has got this."""
        self.link.send_bytes(data)
        return self.link.recv()

    def _does(self, client: int, message: Message | None) -> bytes:
        """Returns what a client sends as an answer; None: of its own accord."""
        update = self.setting.update(client)
        self.aggregator._latest = None  # no party has another one's checks
        began = time.process_time()
        machine = self.aggregator.client(self.setting.round, client, update)
        outputs: Iterable[Output] = machine.start(0.0)
        if message is not None:
            load(machine, self.kept[client])
            outputs = machine.receive(message, 0.0)
        (sent,) = (output.encode() for output in outputs if isinstance(output, Message))
        self.kept[client] = dump(machine)
        self.seconds[client] += time.process_time() - began
        self.traffic[client] += len(sent)
        return sent
