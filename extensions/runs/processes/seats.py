"""Processes on this machine that meet over TLS: each finds its key and where it listens."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from extensions.runs.options import Transport
from extensions.transport import Federation, Identity, Member, make

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


@contextmanager
def seats(transport: Transport, folder: Path, processes: int) -> Iterator[list[Seat]]:
    """Yields a seat for each process, to be started in the block; with gloo it is empty.

    Keys are made for this run, and lie in a folder that must be private to this user and is removed
    when the run ends.
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
        federation_of(own, listeners).write(file)
        yield [
            Seat({FEDERATION: str(file), KEY: str(one.path)}, [listener.fileno()])
            for one, listener in zip(own, listeners, strict=True)
        ]


def federation_of(own: Sequence[Identity], listeners: Sequence[socket.socket]) -> Federation:
    """Returns the federation in which each identity is a party, where it listens on loopback."""
    return Federation(
        [
            Member(
                name=one.name,
                role="party",
                address=f"127.0.0.1:{listener.getsockname()[1]}",
                fingerprint=one.fingerprint,
            )
            for one, listener in zip(own, listeners, strict=True)
        ]
    )
