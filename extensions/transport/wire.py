"""A connection on which nobody is admitted yet: each step ends by one deadline."""

from __future__ import annotations

import select
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Self, TypeVar

from extensions.errors import PeaError
from extensions.transport.handshake_messages import LARGEST_VERDICT, MalformedError, shown
from extensions.transport.identity import Identity, load_key
from extensions.transport.stream import attempt, prepare

_SIZE = struct.Struct(">H")
_LINGER = 1.0
BUSY = "not now: "
"""Begins an objection that will pass."""

_Result = TypeVar("_Result")


class RejectedError(PeaError):
    """One end of a connection refused the other; says which, what it expected and what came."""


class BusyError(RejectedError):
    """The other end serves somebody else now, and may serve this one later."""


class Wire:
    """A connection from its first byte to its end of the handshake, or to its own end.

    Args:
        connection: of TCP. It is closed when the `with` block ends, unless it was kept.
        who: is at the other end, as far as that is known.
        seconds: for all of the handshake.
    """

    def __init__(self, connection: socket.socket, who: str, seconds: float) -> None:
        self.who = who
        self._connection = connection
        self._deadline = time.monotonic() + seconds
        self._kept = False
        self._turn = threading.Lock()
        connection.setblocking(False)
        prepare(connection)

    @property
    def left(self) -> float:
        """Seconds to the deadline."""
        return max(0.0, self._deadline - time.monotonic())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._kept:
            self._connection.close()

    def keep(self) -> ssl.SSLSocket:
        """Returns the connection, which is of TLS and stays open."""
        assert isinstance(self._connection, ssl.SSLSocket)
        self._kept = True
        return self._connection

    def read(self, size: int) -> bytes:
        """Returns so many bytes; ConnectionError if the other end closes before."""
        found = b""
        while len(found) < size:
            data = self._step(lambda: self._connection.recv(size - len(found)), select.POLLIN)  # noqa: B023
            if not data:
                raise ConnectionResetError(f"{self.who} closed the connection in the handshake")
            found += data
        return found

    def write(self, message: bytes) -> None:
        """The message is on its way."""
        while message:
            sent = self._step(lambda: self._connection.send(message), select.POLLOUT)  # noqa: B023
            message = message[sent:]

    def judge(self, objection: str) -> None:
        """The other end learns the objection, if any, which is then raised."""
        verdict = objection.encode()[:LARGEST_VERDICT]
        if not objection:
            self.write(_SIZE.pack(0))
            return
        with suppress(OSError):
            self.write(_SIZE.pack(len(verdict)) + verdict)
        self._linger()
        raise RejectedError(f"{self.who} was refused: {objection}.")

    def hear_verdict(self) -> None:
        """Returns if the other end has no objection."""
        (size,) = _SIZE.unpack(self.read(_SIZE.size))
        if size > LARGEST_VERDICT:
            raise MalformedError(f"announced an objection of {size} bytes")
        if size:
            objection = shown(self.read(size))
            kind = BusyError if objection.startswith(BUSY) else RejectedError
            raise kind(f"{self.who} refused this host and says: {objection}.")

    def secure(self, identity: Identity, certificate: bytes, *, dialled: bool) -> None:
        """TLS begins, in which the other end proves that it has the key of the certificate."""
        context = _context(identity, certificate, dialled=dialled)
        try:
            wrapped = context.wrap_socket(
                self._connection, server_side=not dialled, do_handshake_on_connect=False
            )
        except OSError as error:
            raise ConnectionResetError(f"{self.who} broke off the handshake") from error
        self._connection = wrapped
        self._step(wrapped.do_handshake, select.POLLIN)
        proved = wrapped.getpeercert(binary_form=True)
        if proved != certificate:
            raise RejectedError(f"{self.who} was refused: it proved another certificate's key.")

    def _linger(self) -> None:
        """The other end may read what was said last: a reset would take it away."""
        plain, self._deadline = self._connection, min(self._deadline, time.monotonic() + _LINGER)
        with suppress(OSError):
            socket.socket.shutdown(plain, socket.SHUT_WR)
            while self._step(lambda: socket.socket.recv(plain, 4096), select.POLLIN):
                pass

    def _step(self, step: Callable[[], _Result], event: int) -> _Result:
        try:
            return attempt(self._connection, step, event, self._deadline, self._turn)
        except TimeoutError:
            raise TimeoutError(f"{self.who} took too long over the handshake") from None
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError) as error:
            raise ConnectionResetError(f"{self.who} broke off the handshake") from error
        except ssl.SSLError as error:
            self._linger()
            why = getattr(error, "verify_message", "") or error.reason or error
            text = "TLS expected proof of the key of one certificate at each end, came"
            raise RejectedError(f"{self.who}: {text}: {why}.") from error


class _Wrapped(ssl.SSLSocket):
    """A connection of TLS, also one that the other end has reset before TLS begins.

    Python has taken the socket then, and raises without closing it.
    """

    def getpeername(self) -> object:
        """Returns the other end's address; closes the connection if there is none."""
        try:
            return super().getpeername()
        except OSError:
            self.close()
            raise


def _context(identity: Identity, certificate: bytes, *, dialled: bool) -> ssl.SSLContext:
    """TLS 1.3 with this identity, for another end with this certificate."""
    protocol = ssl.PROTOCOL_TLS_CLIENT if dialled else ssl.PROTOCOL_TLS_SERVER
    context = ssl.SSLContext(protocol)
    context.sslsocket_class = _Wrapped
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # the certificate itself is known
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=certificate)
    load_key(context, identity.path)
    if not dialled:
        context.num_tickets = 0
    return context
