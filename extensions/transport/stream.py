"""A connection that one thread may read while another one writes, each with a limit of its own."""

from __future__ import annotations

import math
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from extensions.transport.kernel import ask_whether_alive, cut, silent_for

_CHUNK = 1 << 18
_ASKED, _UNREAD = 3, 600
"""Seconds of silence after which a host is asked whether it is there, and asked again; and for
which one that is there may leave words unread."""
VANISHED = 30.0
"""Seconds after which a host that answers nothing at all is lost."""
_LOOK = 5.0

_Result = TypeVar("_Result")


class Stream:
    """A connection, of TLS or not, which does not block by itself.

    OpenSSL lets one thread at a time into a connection: none keeps the other out while it waits.

    Args:
        connection: which is this object's from now on.
    """

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._connection = connection
        self._turn = threading.Lock()

    @property
    def connection(self) -> socket.socket:
        """The connection itself."""
        return self._connection

    def fileno(self) -> int:
        """The connection's file descriptor."""
        return self._connection.fileno()

    def read(self, size: int, deadline: float | None = None) -> bytes:
        """Returns so many bytes.

        Memory grows with what has come, not with what was announced.

        Args:
            size: number of bytes.
            deadline: by the monotonic clock; None for no limit.

        Raises:
            TimeoutError: they did not come in time.
            OSError: the connection broke, or the other end closed it before.
        """
        found = bytearray()
        while len(found) < size:
            most = min(size - len(found), _CHUNK)
            data = self._attempt(lambda: self._connection.recv(most), select.POLLIN, deadline)  # noqa: B023
            if not data:
                raise ConnectionResetError("the other end closed the connection")
            found += data
        return bytes(found)

    def write(self, message: bytes, patience: float) -> None:
        """All of it is on its way.

        Args:
            message: what is sent.
            patience: seconds for which the other end may read nothing.

        Raises:
            TimeoutError: it read nothing for so long, or its host has vanished; some of the message
                may be on its way.
            OSError: the connection broke.
        """
        left = memoryview(message)
        while left:
            left = left[self._send(left[:_CHUNK], time.monotonic() + patience) :]

    @property
    def has_vanished(self) -> bool:
        """Whether the other end's host has answered nothing for `VANISHED` seconds."""
        return silent_for(self._connection) > VANISHED

    def is_readable(self) -> bool:
        """Whether something came, or the other end closed."""
        return self.pending or is_ready(self, select.POLLIN, 0.0)

    @property
    def pending(self) -> bool:
        """Whether something came that its descriptor does not show any more."""
        connection = self._connection
        return isinstance(connection, ssl.SSLSocket) and connection.pending() > 0

    def close(self) -> None:
        """Both directions are closed."""
        cut(self._connection)
        self._connection.close()

    def _send(self, data: memoryview, deadline: float) -> int:
        while True:
            try:
                look = min(deadline, time.monotonic() + _LOOK)
                return self._attempt(lambda: self._connection.send(data), select.POLLOUT, look)
            except TimeoutError:
                if time.monotonic() >= deadline or self.has_vanished:
                    raise

    def _attempt(self, step: Callable[[], _Result], event: int, deadline: float | None) -> _Result:
        return attempt(self._connection, step, event, deadline, self._turn)


def attempt(
    connection: socket.socket,
    step: Callable[[], _Result],
    event: int,
    deadline: float | None,
    turn: threading.Lock,
) -> _Result:
    """Returns what a step on a connection returns, once it need not wait.

    Args:
        connection: which does not block.
        step: that is tried; each time it holds `turn`.
        event: of poll(2), without which a plain connection cannot go on.
        deadline: by the monotonic clock; None for no limit.
        turn: of all that work on the connection.

    Raises:
        TimeoutError: the deadline passed before.
        OSError: the connection broke, or was closed here.
    """
    while True:
        try:
            with turn:
                return step()
        except BlockingIOError:
            due = event
        except ssl.SSLWantReadError:
            due = select.POLLIN
        except ssl.SSLWantWriteError:
            due = select.POLLOUT
        left = None if deadline is None else deadline - time.monotonic()
        if not is_ready(connection, due, left):
            raise TimeoutError("took too long")


def is_ready(connection: Stream | socket.socket, event: int, seconds: float | None) -> bool:
    """Waits for an event of poll(2); returns False if it does not come in time."""
    descriptor = connection.fileno()
    if descriptor < 0:
        raise ConnectionAbortedError("the connection was closed here")
    poll = select.poll()
    poll.register(descriptor, event)
    return bool(poll.poll(None if seconds is None else math.ceil(1000 * max(0.0, seconds))))


def prepare(connection: socket.socket) -> None:
    """Small messages leave at once, and a vanished peer is noticed."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    ask_whether_alive(connection, _ASKED, _UNREAD)
