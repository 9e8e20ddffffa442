"""Parties meet over authenticated connections, and CrypTen works over these from then on."""

from __future__ import annotations

import os
import secrets
import socket
import ssl
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from crypten_ext.transport import communicator, group
from extensions.checks import check_seconds
from extensions.errors import ArgumentError, PartyLostError
from extensions.runs.processes.credentials import own_credentials
from extensions.transport import Listener, Local, Mesh, connect_to
from extensions.transport.handshake import Admitted, again
from extensions.transport.handshake_messages import NO_RUN
from extensions.transport.key_value_store import KeyValueStore, RemoteKeyValueStore
from extensions.transport.listener import listening
from extensions.transport.reconnecting import RETURN, Reconnector

import crypten

DATA, STATUS = "data", "status"
"""Purposes of connections: those by which parties compute, and theirs to party 0's board."""
_RUN = "run"
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
        stack.enter_context(place.connected())
        _listeners.append(stack.pop_all())
    crypten.init()


@dataclass(frozen=True)
class Place:
    """Where the parties of a federation meet, as one of them sees it.

    All must have come before `deadline`, and within `back` seconds after their connection broke.
    """

    local: Local
    door: Listener
    board: KeyValueStore | RemoteKeyValueStore
    deadline: float
    back: float

    @property
    def run(self) -> bytes:
        """What party 0 drew for this run, so that connections of no other run are taken."""
        return bytes.fromhex(self.board.get(_RUN).decode())

    @contextmanager
    def connected(self) -> Iterator[Mesh]:
        """Yields what CrypTen's next initialisation takes, and who breaks off comes back to."""
        run, left = self.run, max(0.0, self.deadline - time.monotonic())
        mesh = connect(self.local, self.door, run, left, back=self.back)
        begin(mesh, Session(self.local, run, self.board))
        try:
            yield mesh
        finally:
            mesh.stop_reconnecting()


@contextmanager
def meeting_place(local: Local, seconds: float, back: float = RETURN) -> Iterator[Place]:
    """Yields where a party meets the others, once party 0, which keeps the board, is there.

    Raises:
        ArgumentError: the host is no party, or the port is taken.
        RejectedError: party 0 and this one refused each other.
        PartyLostError: party 0 does not answer in time.
    """
    deadline, first = time.monotonic() + seconds, local.federation.parties[0]
    if local.rank is None:
        raise ArgumentError("key", local.member.name, f"a party's, not a {local.member.role}'s")
    with listening(local) as listener, Listener(local, listener, [DATA, STATUS], [STATUS]) as door:
        board: KeyValueStore | RemoteKeyValueStore
        if local.rank:
            try:
                connection = connect_to(local, first, STATUS, seconds=seconds).connection
            except TimeoutError as error:
                raise PartyLostError(0, f"did not come: {error}") from error
            board = RemoteKeyValueStore(connection, again(local, first, STATUS), back)
        else:
            board = own = KeyValueStore()
            board.set(_RUN, secrets.token_hex(len(NO_RUN)))
            door.hand_on(STATUS, lambda guest: own.serve(guest.connection))
        try:
            yield Place(local, door, board, deadline, back)
        finally:
            board.close()


def connect(
    local: Local, door: Listener | None, run: bytes, seconds: float, *, back: float | None = None
) -> Mesh:
    """Returns the connections of this party with all others of its federation, one a pair.

    Each party calls those before it and is called by those after it.

    Args:
        local: this party.
        door: where others come in; the last party needs none.
        run: in which all take part.
        seconds: in which all must have come.
        back: seconds within which a connection that broke is dialled again, through a door that
            stays open; None: whose connection breaks is lost.

    Raises:
        RejectedError: another end and this one refused each other.
        PartyLostError: a party did not come in time.
    """
    deadline, parties, rank = time.monotonic() + seconds, local.federation.parties, local.rank
    assert rank is not None
    if door is not None:
        door.begin(run)
    found: dict[int, ssl.SSLSocket] = {}
    for other, member in enumerate(parties):
        if other == rank:
            continue
        left = max(0.0, deadline - time.monotonic())
        try:
            if other < rank:
                admitted = connect_to(local, member, DATA, run, seconds=left)
            else:
                assert door is not None
                admitted = door.take(member, DATA, left)
        except TimeoutError as error:
            for each in found.values():
                each.close()
            raise PartyLostError(other, f"({member.name}) did not come: {error}") from error
        found[other] = admitted.connection
    if back is None:
        return Mesh(rank, found)
    assert door is not None
    dials = {n: again(local, one, DATA, run) for n, one in enumerate(parties[:rank])}
    reconnector = Reconnector(dials, back)
    mesh = Mesh(rank, found, reconnector)

    def give(guest: Admitted) -> None:
        reconnector.give(local.federation.rank_of(guest.member), guest.connection)

    door.hand_on(DATA, give)
    return mesh


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
