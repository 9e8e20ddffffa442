"""Messages by links that do not come back once they break: without a federation nobody is known."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress

from crypten_ext.dealer.connection.frames import BrokenFrameError
from crypten_ext.dealer.connection.link import Link
from extensions.errors import PartyLostError
from extensions.transport.kernel import carried_by
from extensions.transport.post import Hear, Lose
from extensions.transport.stream import VANISHED

_LOOK = 5.0
"""Seconds between two looks at whether a host is there that says nothing."""


class Links:
    """What `extensions.transport.post.Post` is where connections are replaced.

    Args:
        links: by rank of who is at the other end; nobody else uses them from now on.
        hear: called by a thread for each link with the rank and the next message.
        lose: called by it when a link is closed or broke.
    """

    def __init__(self, links: Mapping[int, Link], hear: Hear, lose: Lose) -> None:
        self._links, self._hear, self._lose = dict(links), hear, lose
        self._threads = {
            rank: threading.Thread(target=self._read, args=(rank, link), daemon=True)
            for rank, link in links.items()
        }
        for thread in self._threads.values():
            thread.start()

    def send(self, rank: int, message: bytes) -> None:
        """The message is on its way; waits while the other side does not read.

        Raises:
            OSError: the connection broke.
        """
        self._links[rank].send(message)

    def send_last(self, rank: int, message: bytes) -> None:
        """The message is sent if that takes a few seconds at most; nothing may follow it."""
        self._links[rank].send_last(message)

    def dismiss(self, rank: int) -> None:
        """A host that wants no more is no longer known."""
        self._links[rank].close()

    def leave(self, rank: int, message: bytes, seconds: float) -> None:
        """Sends the last message, and returns once the other side has closed the connection.

        What it had sent before is read first: closing with unread messages would reset the
        connection, and the last one would be lost.
        """
        with suppress(OSError):
            self._links[rank].send(message)
            self._threads[rank].join(seconds)
        self._links[rank].close()

    def is_away(self, rank: int) -> bool:
        """False: a connection that breaks is lost."""
        return False

    def carried(self, rank: int) -> tuple[int, int]:
        """Returns the bytes that were sent and received, by the kernel's count."""
        return carried_by(self._links[rank].connection)

    def stop_returning(self) -> None:
        """Nobody comes back anyway."""

    def close(self) -> None:
        """All connections are closed."""
        for link in self._links.values():
            link.close()

    def _read(self, rank: int, link: Link) -> None:
        error: Exception | None = None
        try:
            while message := self._next(rank, link):
                self._hear(rank, message)
        except (BrokenFrameError, OSError) as broken:
            error = broken
        self._lose(rank, error)

    def _next(self, rank: int, link: Link) -> bytes:
        while True:
            try:
                return link.receive(_LOOK)
            except TimeoutError:
                if link.stream.has_vanished:
                    reason = f"stopped answering the dealer for {VANISHED:g} s"
                    raise PartyLostError(rank, reason) from None
