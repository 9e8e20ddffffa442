"""How the dealer and the parties of a federation come together: by TLS, each proving who it is."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

from crypten_ext.dealer.connection.frames import Plain
from crypten_ext.dealer.connection.handshake import Seat
from crypten_ext.dealer.connection.link import Link
from crypten_ext.masks.keystream import KEY_BYTES
from extensions.transport import Local, Member, dial
from extensions.transport.handshake import Admitted, Terms, answer
from extensions.transport.hello import Claim
from extensions.transport.wire import BUSY

DEALING = "tuples"
"""Purpose of these connections."""


def admit(
    local: Local, connection: socket.socket, seats: Mapping[int, bytes], seconds: float
) -> tuple[socket.socket, Seat]:
    """Returns the connection of a party that proved who it is, with the seat that it may take.

    The party is sent the key of its tuples, which is drawn for this seat.

    Args:
        local: the dealer's end.
        connection: that was accepted; it is closed if nothing becomes of it.
        seats: those that are taken, each with its party's run.
        seconds: for all of it.

    Raises:
        RefusedError: either end refused the other.
        MalformedError: what came is no handshake.
        OSError: the connection broke, or took too long.
    """
    runs: list[bytes] = []

    def terms(member: Member, claim: Claim, _: float) -> Terms:
        runs.append(claim.run)
        return Terms(DEALING, claim.run, _objection(local, member, claim, seats))

    admitted = answer(local, connection, terms, seconds)
    rank = local.federation.rank_of(admitted.member)
    assert rank is not None
    seat = Seat(rank, b"", Plain(), os.urandom(KEY_BYTES), *runs)
    Link(admitted.connection, seat.frames).send_at_once(seat.key)
    return admitted.connection, seat


def visit(local: Local, dealer: Member, run: bytes, seconds: float) -> Admitted:
    """Returns a party's connection to the dealer of its federation, on which the key comes first.

    Raises:
        BusyError: the dealer deals for another run.
        RefusedError: either end refused the other.
        TimeoutError: nobody answered in time.
    """
    return dial(local, dealer, DEALING, run, seconds=seconds)


def _objection(local: Local, member: Member, claim: Claim, seats: Mapping[int, bytes]) -> str:
    rank = local.federation.rank_of(member)
    if rank is None:
        return f"expected a party, came {member.name}, a {member.role}"
    if others := {*seats.values()} - {claim.run}:
        return f"{BUSY}expected the run {others.pop().hex()}, came {claim.run.hex()}"
    if rank in seats:
        return f"{BUSY}expected nobody else for {member.name}, whose connection is open"
    return ""
