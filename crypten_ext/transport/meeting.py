"""Parties meet over authenticated connections, and CrypTen works over these from then on."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from crypten_ext.transport import communicator, group
from extensions.checks import check_seconds
from extensions.runs.processes.credentials import own_credentials
from extensions.runs.processes.meeting import DATA, Place, connect, meeting_place
from extensions.transport import Listener, Local, Mesh
from extensions.transport.handshake_messages import NO_RUN
from extensions.transport.key_value_store import KeyValueStore, RemoteKeyValueStore

import crypten

_STARTING = 300.0
_sessions: list[Session] = []
_listeners: list[ExitStack] = []


@dataclass(frozen=True)
class Session:
    """Parties that have met.

    Attributes:
        local: this party's end of all connections.
        run: that party 0 drew for it; zeros where the identities were made for it alone.
        board: by which the parties tell each other how they are; None without one.
    """

    local: Local
    run: bytes
    board: KeyValueStore | RemoteKeyValueStore | None = None


def session() -> Session | None:
    """Returns in which session this process is, None without one."""
    return _sessions[0] if _sessions else None


def init(federation: Path | str, key: Path | str, *, seconds: float = 300.0) -> None:
    """CrypTen is initialised for this party, over TLS 1.3 with all others of a federation.

    In place of ``crypten.init()``; afterwards all is as usual, ``crypten.uninit()`` too. The port
    stays open until the process ends or calls this again: a party whose connection breaks dials
    again.

    Args:
        federation: file of `pea federation`, the same at every party.
        key: this party's, of `pea keys`.
        seconds: in which all parties must have come.

    Raises:
        ArgumentError: files that are none, or a key of nobody in the federation.
        RejectedError: another end and this one refused each other; it says why.
        PartyLostError: a party did not come in time; it is named. Later: a connection broke and
            was not there again within `extensions.transport.reconnecting.RETURN` seconds.
    """
    check_seconds("seconds", seconds)
    local = Local.read(Path(federation), Path(key))
    while _listeners:
        _listeners.pop().close()
    with ExitStack() as stack:
        place = stack.enter_context(meeting_place(local, seconds))
        stack.enter_context(connected(place))
        _listeners.append(stack.pop_all())
    crypten.init()


@contextmanager
def connected(place: Place) -> Iterator[Mesh]:
    """Yields what CrypTen's next initialisation takes, and who breaks off comes back to."""
    with place.connected() as mesh:
        begin(mesh, Session(place.local, place.run, place.board))
        yield mesh


def begin(mesh: Mesh, session: Session, third_parties: int = 0) -> None:
    """CrypTen's next initialisation takes these connections.

    Args:
        mesh: of this process.
        session: in which it met the others.
        third_parties: how many of its members are no parties: CrypTen's third party, which is last.
    """
    group.register()
    group.use(mesh)
    _sessions[:] = [session]
    communicator.install()
    os.environ.update(
        DISTRIBUTED_BACKEND=group.BACKEND,
        RENDEZVOUS=f"{group.BACKEND}://",
        WORLD_SIZE=str(len(mesh.others) + 1 - third_parties),
        RANK=str(mesh.rank),
    )


def join_if_listening(descriptors: Sequence[str], third_parties: int = 0) -> None:
    """A process that listens meets the others, before CrypTen is initialised; any other does not.

    Args:
        descriptors: as the process's arguments have them.
        third_parties: as in `begin`.
    """
    local = own_credentials()
    if local is None or not descriptors:
        return
    with (
        socket.socket(fileno=int(descriptors[0])) as listener,
        Listener(local, listener, [DATA]) as door,
    ):
        mesh = connect(local, door, NO_RUN, _STARTING)
        begin(mesh, Session(local, NO_RUN), third_parties)
