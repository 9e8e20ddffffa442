"""A connection of sealed frames, whose every frame is bounded in bytes and time."""

from __future__ import annotations

import math
import select
import socket
import struct
import time
from contextlib import suppress

from crypten_ext.dealer.connection.frames import LENGTH, BrokenFrameError, Frames
from extensions.errors import ArgumentError

LARGEST_FRAME = 1 << 30
_CHUNK = 1 << 20
_FAREWELL = 5.0
_UNREAD = 600.0
_VANISHED = {
    "TCP_KEEPIDLE": 10,
    "TCP_KEEPINTVL": 5,
    "TCP_KEEPCNT": 3,
    "TCP_USER_TIMEOUT": int(1000 * _UNREAD),
}
"""When a connection counts as lost: seconds without an answer, milliseconds with unsent words."""


class Link:
    """A connection with the frames of its two sides; a message is one frame.

    One thread may send while another receives: what both share, whether system calls block, never
    changes.

    Args:
        connection: between the two.
        frames: this side's.
        largest: bytes of the largest frame that is received.
        patience: seconds within which a frame must be complete once it began; None for no limit.
    """

    def __init__(
        self,
        connection: socket.socket,
        frames: Frames,
        *,
        largest: int = LARGEST_FRAME,
        patience: float | None = None,
    ) -> None:
        self._connection = connection
        connection.settimeout(None)
        _give_up_sending(connection, _UNREAD)
        self.frames = frames
        self._largest, self._patience = largest, patience

    def fileno(self) -> int:
        """The connection's file descriptor."""
        return self._connection.fileno()

    def send(self, message: bytes) -> None:
        """The message is on its way; blocks while the other side does not read.

        Raises:
            ArgumentError: it is too long.
            OSError: the connection is lost, or nothing was read for ten minutes.
        """
        frame = self.frames.seal(message)
        if len(frame) > LARGEST_FRAME:
            raise ArgumentError("message", f"{len(frame)} bytes", f"at most {LARGEST_FRAME} bytes")
        self._connection.sendall(frame)

    def receive(self, wait: float | None = None) -> bytes:
        """Returns the next message; empty when the other side closed between two messages.

        Args:
            wait: seconds until it must begin; None for no limit.

        Raises:
            BrokenFrameError: it closed within one, took too long over it, altered, repeated or left
                out one, or sent an empty one.
            TimeoutError: none began in time.
        """
        if wait is not None and not _is_readable(self._connection, time.monotonic() + wait):
            raise TimeoutError
        first = self._connection.recv(1)
        if not first:
            return b""
        deadline = None if self._patience is None else time.monotonic() + self._patience
        header = first + read(self._connection, LENGTH.size - 1, deadline)
        (length,) = LENGTH.unpack(header)
        if length > self._largest:
            raise BrokenFrameError(f"announced a message of {length} bytes")
        message = self.frames.open(read(self._connection, length, deadline))
        if not message:
            raise BrokenFrameError("sent an empty message")
        return message

    def send_at_once(self, message: bytes) -> None:
        """The message is on its way; OSError if the other side is gone or does not read."""
        self._connection.sendall(self.frames.seal(message), socket.MSG_DONTWAIT)

    def send_last(self, message: bytes) -> None:
        """The message is sent if the other side reads it within seconds; nothing may follow it."""
        with suppress(OSError):
            _give_up_sending(self._connection, _FAREWELL)
            self._connection.sendall(self.frames.seal(message))

    def close(self) -> None:
        """Both directions are closed."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()


def prepare(connection: socket.socket) -> None:
    """Small messages leave at once, and a vanished peer is noticed."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _VANISHED.items():
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def read(connection: socket.socket, size: int, deadline: float | None) -> bytes:
    """Returns `size` bytes; memory grows with what has come, not with what was announced.

    Raises:
        BrokenFrameError: the other side closed before, or the deadline passed.
    """
    buffer = bytearray()
    while len(buffer) < size:
        if deadline is not None and not _is_readable(connection, deadline):
            raise BrokenFrameError("did not complete a message in time")
        data = connection.recv(min(size - len(buffer), _CHUNK))
        if not data:
            raise BrokenFrameError("closed its connection within a message")
        buffer += data
    return bytes(buffer)


def _is_readable(connection: socket.socket, deadline: float) -> bool:
    """Waits until something came, or the other side closed; False if not before the deadline."""
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(math.ceil(1000 * max(0.0, deadline - time.monotonic()))))


def _give_up_sending(connection: socket.socket, seconds: float) -> None:
    """From now on a send fails after so many seconds in which nothing was read."""
    interval = struct.pack("ll", int(seconds), 0)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, interval)
