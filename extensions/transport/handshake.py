"""How two hosts come to a connection on which each knows the other: preambles, TLS 1.3, claims.

Each end trusts one certificate for one connection: that of the preamble, once its fingerprint is
the one that the federation has. Whoever objects tells the other end why, and both raise.
"""

from __future__ import annotations

import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from extensions.checks import check_address
from extensions.transport.federation import Federation, Member
from extensions.transport.handshake_messages import (
    CLAIM_BYTES,
    NO_RUN,
    PREAMBLE_BYTES,
    Claim,
    MalformedError,
    Preamble,
    transcript,
)
from extensions.transport.identity import Identity, fingerprint_of
from extensions.transport.reconnecting import Dial
from extensions.transport.wire import RejectedError, Wire

__all__ = [
    "ATTEMPT",
    "Admitted",
    "Local",
    "RejectedError",
    "Terms",
    "accept",
    "again",
    "connect_to",
]

ATTEMPT = 10.0
"""Seconds that one handshake may take."""
_PAUSE = 0.1


@dataclass(frozen=True)
class Local:
    """This end of all its connections.

    Attributes:
        identity: of this host.
        federation: of which it is a member.

    Raises:
        ArgumentError: it is none.
    """

    identity: Identity
    federation: Federation

    def __post_init__(self) -> None:
        self.federation.own(self.identity)

    @classmethod
    def read(cls, federation: Path, key: Path) -> Local:
        """Returns the end that a file of `pea keys` has in a file of `pea federation`.

        Raises:
            ArgumentError: files that are none, or a key of nobody in the federation.
        """
        return cls(Identity.read(key), Federation.read(federation))

    @property
    def member(self) -> Member:
        """This host as the others see it."""
        return self.federation.own(self.identity)

    @property
    def rank(self) -> int | None:
        """The rank of a party, None of anybody else."""
        return self.federation.rank_of(self.member)


@dataclass(frozen=True)
class Admitted:
    """A connection whose other end has proved who it is.

    Attributes:
        member: at the other end.
        purpose: of the connection.
        run: in which both take part.
        connection: which does not block.
    """

    member: Member
    purpose: str
    run: bytes
    connection: ssl.SSLSocket


@dataclass(frozen=True)
class Terms:
    """What a host that is called expects of the caller.

    Attributes:
        purpose: of the connection.
        run: in which both must take part.
        objection: what else keeps it from taking this connection; or nothing.
    """

    purpose: str
    run: bytes
    objection: str = ""


def connect_to(
    local: Local,
    member: Member,
    purpose: str,
    run: bytes = NO_RUN,
    *,
    seconds: float,
    anew: bool = False,
    over: threading.Event | None = None,
) -> Admitted:
    """Returns a connection to a member; while nobody answers there, it is tried again.

    Args:
        local: this end.
        member: at the other end.
        purpose: of the connection, 16 characters at most.
        run: in which both take part, 32 bytes.
        seconds: in which somebody must answer.
        anew: whether the member has listened there before, as long as it takes part: if its host
            refuses a connection now, it has ended, and is not tried again.
        over: set once nobody wants the connection any more, which is not tried again then.

    Cost:
        Five one-way latencies, with TCP's.

    Raises:
        RejectedError: either end refused the other.
        TimeoutError: nobody answered, or broke off; it says what was met last.
        ConnectionRefusedError: nobody listens there any more; ConnectionAbortedError: it is over.
    """
    deadline, over = time.monotonic() + seconds, over or threading.Event()
    while not over.is_set():
        try:
            address = check_address("address", member.address)
            left = max(1e-3, min(ATTEMPT, deadline - time.monotonic()))
            connection = socket.create_connection(address, left)
            with Wire(connection, f"{member.name} at {member.address}", left) as wire:
                if connection.getsockname() == connection.getpeername():
                    raise _met_itself(connection)
                return _connect_on(wire, local, member, purpose, run)
        except (OSError, MalformedError) as error:
            if anew and isinstance(error, ConnectionRefusedError):
                text = f"nobody listens at {member.address} any more"
                raise ConnectionRefusedError(text) from error
            if time.monotonic() + _PAUSE >= deadline:
                text = f"{member.name} does not answer at {member.address} after {seconds:g} s"
                raise TimeoutError(f"{text}: {error}") from error
            over.wait(_PAUSE)
    raise ConnectionAbortedError(f"{member.name} is not called any more")


def again(local: Local, member: Member, purpose: str, run: bytes = NO_RUN) -> Dial:
    """Returns how a member is called again whose connection broke."""
    return lambda seconds, over: (
        connect_to(local, member, purpose, run, seconds=seconds, anew=True, over=over).connection
    )


def accept(
    local: Local,
    connection: socket.socket,
    terms_of: Callable[[Member, Claim, float], Terms],
    seconds: float = ATTEMPT,
) -> Admitted:
    """Returns what a connection from outside has become; it is closed if that is nothing.

    Args:
        local: this end.
        connection: that was accepted.
        terms_of: returns what is expected of a member that claims this; may wait so long.
        seconds: for all of it.

    Cost:
        At most one handshake of TLS, and a hundred kilobytes of memory.

    Raises:
        RejectedError: either end refused the other.
        MalformedError: what came is no handshake.
        OSError: the connection broke, or took too long.
    """
    place = _place(connection)
    with Wire(connection, f"a host at {place}", seconds) as wire:
        own = Preamble.of(local.federation, local.identity.certificate)
        fixed = wire.read(PREAMBLE_BYTES)
        theirs = Preamble.unpack(fixed, wire.read(Preamble.rest(fixed)))
        wire.write(own.pack())
        wire.judge(theirs.objection(own, local.federation))
        wire.hear_verdict()
        member = local.federation.of(fingerprint_of(theirs.certificate))
        assert member is not None
        wire.who = f"{member.name} at {place}"
        said = transcript(theirs.pack(), own.pack())
        wire.secure(local.identity, theirs.certificate, dialled=False)
        claim = Claim.unpack(wire.read(CLAIM_BYTES))
        terms = terms_of(member, claim, wire.left)
        mine = Claim(said, terms.purpose, local.rank, terms.run)
        wire.write(Claim(said, terms.purpose[:16], local.rank, terms.run).pack())
        wire.judge(claim.objection(mine, member, local.federation) or terms.objection)
        wire.hear_verdict()
        return Admitted(member, claim.purpose, claim.run, wire.keep())


def _connect_on(wire: Wire, local: Local, member: Member, purpose: str, run: bytes) -> Admitted:
    own = Preamble.of(local.federation, local.identity.certificate, member.fingerprint)
    wire.write(own.pack())
    fixed = wire.read(PREAMBLE_BYTES)
    theirs = Preamble.unpack(fixed, wire.read(Preamble.rest(fixed)))
    wire.judge(theirs.objection(own, local.federation))
    wire.hear_verdict()
    wire.secure(local.identity, theirs.certificate, dialled=True)
    claim = Claim(transcript(own.pack(), theirs.pack()), purpose, local.rank, run)
    wire.write(claim.pack())
    wire.judge(Claim.unpack(wire.read(CLAIM_BYTES)).objection(claim, member, local.federation))
    wire.hear_verdict()
    return Admitted(member, purpose, run, wire.keep())


def _met_itself(connection: socket.socket) -> OSError:
    """A caller was given the port that it called, where nobody listens; closing frees it."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return OSError("nobody listens there")


def _place(connection: socket.socket) -> str:
    try:
        host, port, *_ = connection.getpeername()
    except OSError:
        return "an address that is gone"
    return f"{host.removeprefix('::ffff:')}:{port}"
