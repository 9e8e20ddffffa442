"""Messages between hosts that are sent whenever there are some, and heard by a thread as they come.

All that `extensions.transport.mesh` says of connections that break holds: a message comes once, in
its place, whatever becomes of the connection on its way.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress

from extensions.errors import PartyLostError
from extensions.transport.mesh import Mesh

_UNREAD = 600.0
"""Seconds for which another host may leave too much unread."""
_LAST = 5.0
"""Seconds in which last words are on their way."""
_JOIN = 1.0

Hear = Callable[[int, bytes | bytearray], None]
Lose = Callable[[int, PartyLostError], None]
"""Takes who is lost and why."""


class ReliableChannel:
    """Messages to and from the hosts of a mesh.

    Args:
        mesh: whose connections are replaced when they break; nobody else uses it from now on.
        largest: bytes of a message that is received.
        hear: called by the thread with the rank of a host and its next message; meanwhile nothing
            else is received.
        lose: called by it when a host is lost; the others go on.

    Guarantees:
        at most `extensions.transport.endpoint.KEPT` bytes a host, or one message, wait to be sent
        or to be acknowledged.

    Cost:
        A thread, and those of `extensions.transport.reconnecting.Reconnector`.
    """

    def __init__(self, mesh: Mesh, largest: int, hear: Hear, lose: Lose) -> None:
        self._mesh, self._largest, self._hear, self._lose = mesh, largest, hear, lose
        self._turn = threading.Condition()
        self._lost: dict[int, PartyLostError] = {}
        self._coming = {rank: mesh.expect(rank, largest) for rank in mesh.others}
        self._is_over = False
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def send(self, rank: int, message: bytes) -> None:
        """The message is on its way, or kept until it can be; waits while there is no room.

        Raises:
            PartyLostError: the host is lost, or leaves too much unread for ten minutes.
        """
        with self._turn:
            if not self._until(lambda: self._mesh.has_room(rank, len(message)), rank, _UNREAD):
                raise PartyLostError(rank, f"left what it was sent unread for {_UNREAD:g} s")
            self._put(rank, message)

    def send_last(self, rank: int, message: bytes) -> None:
        """The message is sent to a host that is not away, if that takes a few seconds at most.

        Nothing may follow it.
        """
        with self._turn, suppress(PartyLostError):
            self._put(rank, message)
            if not self.is_away(rank):
                self._until(lambda: self._mesh.is_sent(rank), rank, _LAST)

    def dismiss(self, rank: int) -> None:
        """A host that wants no more is told that all it said has come, and is no longer known."""
        with self._turn:
            with suppress(PartyLostError):
                self._check(rank)
                self._mesh.acknowledge(rank)
                self._until(lambda: self._mesh.is_sent(rank), rank, _LAST)
            self._drop(PartyLostError(rank, "was dismissed"))

    def leave(self, rank: int, message: bytes, seconds: float) -> None:
        """Sends the last message; returns once the host has it or is lost, or the time is over."""
        with suppress(PartyLostError):
            self.send(rank, message)
            with self._turn:
                self._until(lambda: self._mesh.is_acknowledged(rank), rank, seconds)
        self.close()

    def is_away(self, rank: int) -> bool:
        """Whether the connection with this host broke and is not there again."""
        try:  # without the turn, which whoever is told of a loss may hold
            return self._mesh.is_away(rank)
        except KeyError:
            return False

    def carried(self, rank: int) -> tuple[int, int]:
        """Returns the bytes that went to and came from this host, by the kernel's count."""
        with self._turn:
            return (0, 0) if rank in self._lost else self._mesh.carried([rank])

    def stop_reconnecting(self) -> None:
        """No connection is replaced any more: one that breaks is lost."""
        self._mesh.stop_reconnecting()
        self._mesh.wake()

    def close(self) -> None:
        """Nothing is heard any more, and all connections are closed."""
        self._is_over = True
        self._mesh.wake()
        if threading.current_thread() is not self._thread:
            self._thread.join(_JOIN)
            with self._turn:
                self._mesh.close()
                self._turn.notify_all()

    def _put(self, rank: int, message: bytes) -> None:
        self._check(rank)
        sending = self._mesh.send(rank, memoryview(message), lasting=True)
        while not sending.done and self._mesh.push(rank):
            pass
        if not sending.done:
            self._mesh.wake()  # the thread sends the rest

    def _check(self, rank: int) -> None:
        if rank in self._lost:
            raise self._lost[rank]

    def _until(self, holds: Callable[[], bool], rank: int, seconds: float) -> bool:
        """Waits in turn until something holds of a host; returns whether it does in time."""
        deadline = time.monotonic() + seconds
        self._check(rank)
        self._mesh.wake()
        while not holds():
            left = deadline - time.monotonic()
            if left <= 0.0 or self._is_over:
                return False
            self._turn.wait(left)
            self._check(rank)
        return True

    def _step(self) -> bool:
        """All that can be sent and received now is; returns whether that was anything."""
        try:
            return self._mesh.go_on()
        except PartyLostError as lost:
            if lost.rank in self._lost:
                raise
            self._drop(lost)
            if not self._is_over:
                self._lose(lost.rank, lost)
            return True

    def _drop(self, lost: PartyLostError) -> None:
        if lost.rank not in self._lost:
            self._lost[lost.rank] = lost
            self._coming.pop(lost.rank)
            self._mesh.drop(lost.rank)
            self._turn.notify_all()

    def _work(self) -> None:
        while not self._is_over:
            with self._turn:
                moved = self._step()
                here = [(rank, one.message) for rank, one in self._coming.items() if one.done]
                for rank, _ in here:
                    self._coming[rank] = self._mesh.expect(rank, self._largest)
                sleep = None if moved or here else self._mesh.sleeper()
                self._turn.notify_all()
            for rank, message in here:
                self._hear(rank, message)
            if sleep is not None:
                sleep()
        with self._turn:
            self._mesh.close()
