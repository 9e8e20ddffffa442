"""A connection of frames, each bounded in bytes and time."""

from __future__ import annotations

import socket
import time
from contextlib import suppress

from crypten_ext.dealer.connection.frames import LENGTH, BrokenFrameError, Framing
from extensions.errors import ArgumentError
from extensions.transport.stream import Stream

LARGEST_FRAME = 1 << 30
LARGEST_REQUEST = 32 << 20
"""Bytes of a message of a party: a plan of 100,000 tuples has some 10 MB."""
_FAREWELL = 5.0
_UNREAD = 600.0


class Link:
    """A connection with the frames of its two sides; a message is one frame.

    One thread may send while another receives.

    Args:
        connection: between the two.
        frames: this side's.
        largest: bytes of the largest frame that is received.
        patience: seconds within which a frame must be complete once it began; None for no limit.
    """

    def __init__(
        self,
        connection: socket.socket,
        frames: Framing,
        *,
        largest: int = LARGEST_FRAME,
        patience: float | None = None,
    ) -> None:
        self.stream = Stream(connection)
        self.frames = frames
        self._largest, self._patience = largest, patience

    @property
    def connection(self) -> socket.socket:
        """The connection itself."""
        return self.stream.connection

    def fileno(self) -> int:
        """The connection's file descriptor."""
        return self.stream.fileno()

    def send(self, message: bytes) -> None:
        """The message is on its way; blocks while the other side does not read.

        Raises:
            ArgumentError: it is too long.
            OSError: the connection is lost, or nothing was read for ten minutes.
        """
        frame = self.frames.seal(message)
        if len(frame) > LARGEST_FRAME:
            raise ArgumentError("message", f"{len(frame)} bytes", f"at most {LARGEST_FRAME} bytes")
        self.stream.write(frame, _UNREAD)

    def receive(self, wait: float | None = None) -> bytes:
        """Returns the next message; empty when the other side closed between two messages.

        Args:
            wait: seconds until it must begin; None for no limit.

        Raises:
            BrokenFrameError: it closed within one, took too long over it, altered, repeated or left
                out one, or sent an empty one.
            TimeoutError: none began in time.
        """
        first = self.stream.read(1, None if wait is None else time.monotonic() + wait)
        if not first:
            return b""
        deadline = None if self._patience is None else time.monotonic() + self._patience
        (length,) = LENGTH.unpack(first + self._read(LENGTH.size - 1, deadline))
        if length > self._largest:
            raise BrokenFrameError(f"announced a message of {length} bytes")
        message = self.frames.open(self._read(length, deadline))
        if not message:
            raise BrokenFrameError("sent an empty message")
        return message

    def send_at_once(self, message: bytes) -> None:
        """The message is on its way; OSError if the other side is gone or does not read."""
        self.stream.write(self.frames.seal(message), 0.0)

    def send_last(self, message: bytes) -> None:
        """The message is sent if the other side reads it within seconds; nothing may follow it."""
        with suppress(OSError):
            self.stream.write(self.frames.seal(message), _FAREWELL)

    def close(self) -> None:
        """Both directions are closed."""
        self.stream.close()

    def _read(self, size: int, deadline: float | None) -> bytes:
        try:
            found = self.stream.read(size, deadline)
        except TimeoutError:
            raise BrokenFrameError("did not complete a message in time") from None
        if len(found) < size:
            raise BrokenFrameError("closed its connection within a message")
        return found
