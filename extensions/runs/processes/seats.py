"""Processes on this machine that meet over TLS: each finds its key and where it listens."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from extensions.runs.options import Transport
from extensions.transport import Federation, Identity, Local, Member, Role, make

FEDERATION, KEY = "PEA_FEDERATION", "PEA_KEY"
"""Environment variables that name a process's files."""


@dataclass(frozen=True)
class Seat:
    """What a process on this machine is given to meet the others.

    Attributes:
        env: of its environment.
        descriptors: of the socket at which it listens, if it does.
    """

    env: Mapping[str, str] = field(default_factory=dict)
    descriptors: Sequence[int] = ()


def own_seat() -> Local | None:
    """Returns this process's end of its connections, as its environment has it; None without one.

    Raises:
        ArgumentError: the files that it names are none.
    """
    if KEY not in os.environ:
        return None
    return Local.read(Path(os.environ[FEDERATION]), Path(os.environ[KEY]))


@contextmanager
def seats(
    transport: Transport, folder: Path, processes: int, *, dealer: bool = False
) -> Iterator[list[Seat]]:
    """Yields a seat for each process, to be started in the block; with gloo it is empty.

    Keys are made for this run, and lie in a folder that must be private to this user and is removed
    when the run ends.

    Args:
        transport: of the parties.
        folder: for keys.
        processes: their number.
        dealer: whether the last of them is a dealer.
    """
    if transport == "gloo":
        yield [Seat()] * processes
        return
    own = [make(f"process-{rank}", folder / f"{rank}.pem", days=1000) for rank in range(processes)]
    file = folder / "federation.toml"
    with ExitStack() as stack:
        listeners = [
            stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(processes)
        ]
        federation_of(own, listeners, dealer=dealer).write(file)
        yield [
            Seat({FEDERATION: str(file), KEY: str(one.path)}, [listener.fileno()])
            for one, listener in zip(own, listeners, strict=True)
        ]


def federation_of(
    own: Sequence[Identity], listeners: Sequence[socket.socket], *, dealer: bool = False
) -> Federation:
    """Returns the federation of these identities, each where it listens on loopback.

    All are parties, but for the last one if that is a dealer.
    """
    roles: list[Role] = ["party"] * len(own)
    if dealer:
        roles[-1] = "dealer"
    return Federation(
        [
            Member(
                name=one.name,
                role=role,
                address=f"127.0.0.1:{listener.getsockname()[1]}",
                fingerprint=one.fingerprint,
            )
            for one, role, listener in zip(own, roles, listeners, strict=True)
        ]
    )
