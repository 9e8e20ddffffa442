"""Processes on this machine that meet over TLS: each finds its key and where it listens."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from extensions.runs.options import Transport
from extensions.transport import Federation, Identity, Local, Member, make

FEDERATION, KEY = "PEA_FEDERATION", "PEA_KEY"
"""Environment variables that name a process's files."""
FILE = "federation.toml"
_NOWHERE = "process-{}.localhost:9"  # of a process that does not listen


@dataclass(frozen=True)
class Credentials:
    """What a process on this machine is given to meet the others.

    Attributes:
        env: of its environment.
        descriptors: of the socket at which it listens, if it does.
    """

    env: Mapping[str, str] = field(default_factory=dict)
    descriptors: Sequence[int] = ()


def own_credentials() -> Local | None:
    """Returns this process's end of its connections, as its environment has it; None without one.

    Raises:
        ArgumentError: the files that it names are none.
    """
    if KEY not in os.environ:
        return None
    return Local.read(Path(os.environ[FEDERATION]), Path(os.environ[KEY]))


@contextmanager
def credentials_for(
    transport: Transport, folder: Path, processes: int, *, dealer: bool = False
) -> Iterator[list[Credentials]]:
    """Yields a seat for each process, to be started in the block; with gloo only a dealer listens.

    Keys are made for this run, and lie in a folder that must be private to this user and is removed
    when the run ends. With gloo and no dealer there are none.

    Args:
        transport: of the parties.
        folder: for keys.
        processes: their number.
        dealer: whether the last of them is a dealer.
    """
    listen = [transport == "tls"] * (processes - 1) + [transport == "tls" or dealer]
    if not any(listen):
        yield [Credentials()] * processes
        return
    with ExitStack() as stack:
        listeners = [
            stack.enter_context(socket.create_server(("127.0.0.1", 0))) if each else None
            for each in listen
        ]
        own = keys_in(folder, listeners, dealer=dealer)
        common = {FEDERATION: str(folder / FILE)}
        yield [
            Credentials(common | {KEY: str(one.path)}, [] if each is None else [each.fileno()])
            for one, each in zip(own, listeners, strict=True)
        ]


def federation_of(
    own: Sequence[Identity], listeners: Sequence[socket.socket | None], *, dealer: bool = False
) -> Federation:
    """Returns the federation of these identities, each where it listens on loopback, if it does.

    All are parties, but for the last one if that is a dealer.
    """
    last = len(own) - 1
    return Federation(
        [
            Member(
                name=one.name,
                role="dealer" if dealer and rank == last else "party",
                address=_NOWHERE.format(rank) if listener is None else place_of(listener),
                fingerprint=one.fingerprint,
            )
            for rank, (one, listener) in enumerate(zip(own, listeners, strict=True))
        ]
    )


def keys_in(
    folder: Path, listeners: Sequence[socket.socket | None], *, dealer: bool
) -> list[Identity]:
    """Returns new identities, whose keys and `FILE` are in the folder; else as `federation_of`."""
    own = [make(f"process-{rank}", folder / f"{rank}.pem", 1000) for rank in range(len(listeners))]
    federation_of(own, listeners, dealer=dealer).write(folder / FILE)
    return own


def place_of(listener: socket.socket) -> str:
    """Returns HOST:PORT of a socket that listens."""
    host, port, *_ = listener.getsockname()
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
