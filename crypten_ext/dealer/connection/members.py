"""How the dealer and the parties of a federation come together: by TLS, each proving who it is.

A party whose connection breaks while its run is dealt for dials again and goes on with its seat
(`extensions.transport.returning`).
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Callable, Mapping

from crypten_ext.dealer.connection.frames import Plain
from crypten_ext.dealer.connection.handshake import Seat
from crypten_ext.dealer.connection.link import LARGEST_REQUEST, Link
from crypten_ext.masks.keystream import KEY_BYTES
from extensions.transport import Local, Member, Mesh, dial
from extensions.transport.handshake import Admitted, Terms, answer
from extensions.transport.hello import Claim
from extensions.transport.post import Hear, Lose, Post
from extensions.transport.returning import RETURN, Returning
from extensions.transport.wire import BUSY

DEALING, AGAIN = "tuples", "tuples again"
"""Purposes of these connections: for a seat, and for one whose connection broke."""
DEALER = 0
"""The dealer's place in a party's correspondence with it."""


def nobody() -> Returning | None:
    """No run is dealt for, so that nobody comes back."""
    return None


def admit(
    local: Local,
    connection: socket.socket,
    seats: Mapping[int, bytes],
    seconds: float,
    returning: Callable[[], Returning | None] = nobody,
) -> tuple[socket.socket, Seat]:
    """Returns the connection of a party that proved who it is, with the seat that it may take.

    The party is sent the key of its tuples, which is drawn for this seat, unless it comes back.

    Args:
        local: the dealer's end.
        connection: that was accepted; it is closed if nothing becomes of it.
        seats: those that are taken, each with its party's run.
        seconds: for all of it.
        returning: returns where parties come back whose run is dealt for; None before it is.

    Raises:
        RefusedError: either end refused the other.
        MalformedError: what came is no handshake.
        OSError: the connection broke, or took too long.
    """
    runs: list[bytes] = []

    def terms(member: Member, claim: Claim, _: float) -> Terms:
        runs.append(claim.run)
        purpose = claim.purpose if claim.purpose == AGAIN else DEALING
        return Terms(purpose, claim.run, _objection(local, member, claim, seats, returning()))

    admitted = answer(local, connection, terms, seconds)
    rank = local.federation.rank_of(admitted.member)
    assert rank is not None
    if admitted.purpose == AGAIN:
        return admitted.connection, Seat(rank, b"", Plain(), b"", *runs)
    seat = Seat(rank, b"", Plain(), os.urandom(KEY_BYTES), *runs)
    try:
        Link(admitted.connection, seat.frames).send_at_once(seat.key)
    except OSError:
        admitted.connection.close()
        raise
    return admitted.connection, seat


def visit(local: Local, dealer: Member, run: bytes, seconds: float) -> Admitted:
    """Returns a party's connection to the dealer of its federation, on which the key comes first.

    Raises:
        BusyError: the dealer deals for another run.
        RefusedError: either end refused the other.
        TimeoutError: nobody answered in time.
    """
    return dial(local, dealer, DEALING, run, seconds=seconds)


def at_dealer(
    links: Mapping[int, Link], rank: int, returning: Returning, hear: Hear, lose: Lose
) -> Post:
    """Returns the correspondence by links, which nobody else uses from now on.

    Args:
        links: of TLS, by rank of the other end.
        rank: of this one.
        returning: how connections that break are replaced.
        hear: of `extensions.transport.post.Post`.
        lose: likewise.
    """
    connections = {}
    for other, link in links.items():
        assert isinstance(link.connection, ssl.SSLSocket)
        connections[other] = link.connection
    return Post(Mesh(rank, connections, returning), LARGEST_REQUEST, hear, lose)


def with_dealer(
    link: Link,
    local: Local,
    dealer: Member,
    run: bytes,
    hear: Hear,
    lose: Lose,
    *,
    seconds: float = RETURN,
) -> Post:
    """Returns a party's correspondence with the dealer, once all have their seats.

    Args:
        link: of `crypten_ext.dealer.connection.connect_member`; nobody else uses it from now on.
        local: this party's end.
        dealer: as the federation names it.
        run: as the dealer was told.
        hear: of `extensions.transport.post.Post`.
        lose: likewise.
        seconds: within which a connection that broke is there again.
    """

    def again(left: float) -> ssl.SSLSocket:
        return dial(local, dealer, AGAIN, run, seconds=left, anew=True).connection

    assert local.rank is not None
    returning = Returning({DEALER: again}, seconds)
    return at_dealer({DEALER: link}, local.rank, returning, hear, lose)


def _objection(
    local: Local,
    member: Member,
    claim: Claim,
    seats: Mapping[int, bytes],
    returning: Returning | None,
) -> str:
    rank = local.federation.rank_of(member)
    if rank is None:
        return f"expected a party, came {member.name}, a {member.role}"
    if claim.purpose == AGAIN:
        if returning is not None and seats.get(rank) == claim.run:
            return ""
        return (
            f"expected a party of a run that is dealt for, came {member.name} of {claim.run.hex()}"
        )
    if others := {*seats.values()} - {claim.run}:
        if returning is not None and returning.is_away(rank):
            returning.give_up(f"and {member.name} has begun another run.")
        return f"{BUSY}expected the run {others.pop().hex()}, came {claim.run.hex()}"
    if rank in seats:
        return f"{BUSY}expected nobody else for {member.name}, whose connection is open"
    return ""
