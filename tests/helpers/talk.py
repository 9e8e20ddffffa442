"""What a party says to the dealer and hears from it, message by message."""

from queue import SimpleQueue
from typing import Any

from crypten_ext.dealer import messages
from crypten_ext.dealer.connection import DEALER, DealerConnection
from extensions.errors import PartyLostError
from tests.helpers.patience import PATIENCE


class Talk:
    """A party's correspondence with the dealer.

    Args:
        seat: of the party.
        seconds: within which a connection that broke is there again.
    """

    def __init__(self, seat: DealerConnection, seconds: float = PATIENCE) -> None:
        self.seat = seat
        self._heard: SimpleQueue[Any] = SimpleQueue()
        self._post = seat.correspond(self._put, self._put, seconds)

    def _put(self, _: int, heard: bytes | bytearray | PartyLostError) -> None:
        self._heard.put(heard)

    def send(self, message: bytes) -> None:
        """The message is on its way."""
        self._post.send(DEALER, message)

    def send_raw(self, header: bytes) -> None:
        """Bytes that are no message follow on the connection."""
        self.seat.connection.send(header)

    def receive(self) -> bytes:
        """Returns the next message; raises if the dealer is lost."""
        heard = self._heard.get(timeout=PATIENCE)
        if isinstance(heard, PartyLostError):
            raise heard
        return bytes(heard)

    def leave(self) -> None:
        """The dealer is told goodbye."""
        self._post.leave(DEALER, messages.BYE, PATIENCE)

    def close(self) -> None:
        """The connection is closed without a word."""
        self._post.close()
