"""Ports of a host's links: what comes there is received, and then kept."""

import queue
import socket
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from extensions.errors import PeaError
from extensions.transport.hello import MalformedError
from extensions.transport.lobby import Lobby

ERRORS = (PeaError, OSError, MalformedError)
"""Why a link comes to nothing."""
Guest = TypeVar("Guest")


def begin(work: Callable[[Guest], None], argument: Guest) -> None:
    """Starts work in a thread of its own, which ends with the process."""
    threading.Thread(target=work, args=(argument,), daemon=True).start()


class Port(Lobby[Guest], Generic[Guest]):
    """A port: what comes there is received, and then kept, each in a thread of its own.

    `receive` returns what a connection has become, and `keep` takes that over; `tell` is called
    with why a connection came to nothing.
    """

    def __init__(
        self,
        listener: socket.socket,
        receive: Callable[[socket.socket], Guest],
        keep: Callable[[Guest], None],
        tell: Callable[[str], None],
    ) -> None:
        super().__init__(listener)
        self._receive, self._keep, self._tell = receive, keep, tell

    def receive(self, connection: socket.socket) -> Guest:
        """Returns what a connection has become."""
        try:
            return self._receive(connection)
        except ERRORS as error:
            connection.close()
            if self.is_open:
                self._tell(str(error))
            raise

    def settle(self, guest: Guest) -> None:
        """Hands a guest over."""
        begin(self._keep, guest)

    def close(self, guest: Guest) -> None:
        """Hands a guest over all the same: who keeps it knows that all is over."""
        self.settle(guest)


class Way(Lobby[socket.socket]):
    """To a client: the port where its player looks for it.

    Attributes:
        wanting: connections of the player that wait for a link.
        links: how many there are.
    """

    def __init__(self, listener: socket.socket) -> None:
        super().__init__(listener)
        self.wanting: queue.SimpleQueue[socket.socket] = queue.SimpleQueue()
        self.links = 0

    def receive(self, connection: socket.socket) -> socket.socket:
        """Returns the connection as it is."""
        return connection

    def settle(self, guest: socket.socket) -> None:
        """Lets it wait for a link."""
        self.wanting.put(guest)

    def close(self, guest: socket.socket) -> None:
        """Closes it."""
        guest.close()

    def __exit__(self, *details: object) -> None:
        super().__exit__(*details)
        while not self.wanting.empty():
            self.wanting.get().close()
