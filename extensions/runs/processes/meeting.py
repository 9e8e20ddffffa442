"""Parties of a federation meet: at a board that party 0 keeps, then in pairs of connections."""

from __future__ import annotations

import secrets
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

from extensions.errors import ArgumentError, PartyLostError
from extensions.transport import Listener, Local, Mesh, connect_to
from extensions.transport.handshake import Admitted, again
from extensions.transport.handshake_messages import NO_RUN
from extensions.transport.key_value_store import KeyValueStore, RemoteKeyValueStore
from extensions.transport.listener import listening
from extensions.transport.reconnecting import RETURN, Reconnector

DATA, STATUS = "data", "status"
"""Purposes of connections: those by which parties compute, and theirs to party 0's board."""
_RUN = "run"


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
    purpose: str = DATA

    @cached_property
    def run(self) -> bytes:
        """What party 0 drew for this run, so that connections of no other run are taken."""
        return bytes.fromhex(self.board.get(_RUN).decode())

    @contextmanager
    def connected(self) -> Iterator[Mesh]:
        """Yields the connections with all others; who breaks off comes back until the block ends.

        Raises:
            RejectedError: another end and this one refused each other.
            PartyLostError: a party did not come in time.
        """
        left = max(0.0, self.deadline - time.monotonic())
        mesh = connect(self.local, self.door, self.run, left, back=self.back, purpose=self.purpose)
        try:
            yield mesh
        finally:
            mesh.stop_reconnecting()


@contextmanager
def meeting_place(
    local: Local, seconds: float, back: float = RETURN, purpose: str = DATA
) -> Iterator[Place]:
    """Yields where a party meets the others, once party 0, which keeps the board, is there.

    Args:
        local: this party.
        seconds: in which all must have come.
        back: seconds within which a party that lost a connection is back.
        purpose: of the connections; who meets for another one is refused.

    Raises:
        ArgumentError: the host is no party, or the port is taken.
        RejectedError: party 0 and this one refused each other.
        PartyLostError: party 0 does not answer in time.
    """
    deadline, first = time.monotonic() + seconds, local.federation.parties[0]
    if local.rank is None:
        raise ArgumentError("key", local.member.name, f"a party's, not a {local.member.role}'s")
    purposes = [purpose, STATUS]
    with listening(local) as listener, Listener(local, listener, purposes, [STATUS]) as door:
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
            yield Place(local, door, board, deadline, back, purpose)
        finally:
            board.close()


def connect(
    local: Local,
    door: Listener | None,
    run: bytes,
    seconds: float,
    *,
    back: float | None = None,
    purpose: str = DATA,
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
        purpose: of the connections.

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
                admitted = connect_to(local, member, purpose, run, seconds=left)
            else:
                assert door is not None
                admitted = door.take(member, purpose, left)
        except TimeoutError as error:
            for each in found.values():
                each.close()
            raise PartyLostError(other, f"({member.name}) did not come: {error}") from error
        found[other] = admitted.connection
    if back is None:
        return Mesh(rank, found)
    assert door is not None
    dials = {n: again(local, one, purpose, run) for n, one in enumerate(parties[:rank])}
    reconnector = Reconnector(dials, back)
    mesh = Mesh(rank, found, reconnector)

    def give(guest: Admitted) -> None:
        reconnector.give(local.federation.rank_of(guest.member), guest.connection)

    door.hand_on(purpose, give)
    return mesh
