"""The dealer's door: everybody may knock, nobody can hold it, and whoever has a seat may leave it.

Members of a federation prove who they are. Without one it is not known who knocks: the first to
prove the keys of a seat has it. What a stranger can do is bounded in bytes, in time and in number.
"""

from __future__ import annotations

import math
import socket
import ssl
import time
from collections.abc import Callable

from crypten_ext.dealer.connection.frames import BrokenFrameError
from crypten_ext.dealer.connection.handshake import Seat, Visit, awaiting
from crypten_ext.dealer.connection.link import LARGEST_REQUEST, Link
from crypten_ext.dealer.connection.links import Links
from crypten_ext.dealer.connection.members import admit, at_dealer
from extensions.errors import PartyLostError
from extensions.transport import Local
from extensions.transport.lobby import Lobby
from extensions.transport.post import Hear, Lose, Post
from extensions.transport.returning import Returning
from extensions.transport.wire import Wire

STAY = 10.0
"""Seconds from the arrival of a visitor to its seat."""
_REQUEST_TIME = 60.0
_ASKING = 0.05
_SAYING = 5.0
"""Seconds after which the seated hear again who is missing, and so that the dealer is there."""
_DEALERS = -1
"""Rank of the dealer's own end."""

Offer = tuple[socket.socket, Seat]


class Door(Lobby[Offer]):
    """Where parties get their seats, and strangers nothing, until the `with` block ends.

    Args:
        listener: where everybody connects; it is closed in the end.
        parties: number of parties.
        greet: called with the rank and public value of whoever takes a seat.
        local: the dealer's end, whose parties alone get seats; None without a federation.

    Guarantees:
        those of `extensions.transport.lobby.Lobby`. Each visitor has `STAY` seconds and sends at
        most some messages of bounded length. All seats are of one run, and of parties with the
        dealer's software.
    """

    def __init__(
        self,
        listener: socket.socket,
        parties: int,
        greet: Callable[[int, bytes], None],
        local: Local | None = None,
    ) -> None:
        super().__init__(listener)
        self._parties, self._greet, self._local = parties, greet, local
        self._links: dict[int, Link] = {}
        self._keys: dict[int, bytes] = {}
        self._runs: dict[int, bytes] = {}
        self._returning: Returning | None = None
        self._is_dealing = False
        self._told = 0.0

    def __exit__(self, *details: object) -> None:
        super().__exit__(*details)
        if not self._is_dealing:
            self.clear()

    def gather(self, seconds: float | None = None) -> tuple[dict[int, Link], dict[int, bytes]]:
        """Returns links and tuple keys by rank, once every seat is taken.

        From then on no seat is given until `clear`.

        Args:
            seconds: within which all parties must have their seats, of a federation once one has
                its own; None: there is no limit.

        Raises:
            PartyLostError: a party has no seat at the end of the time; the first such is named.
        """
        limit = math.inf if seconds is None else seconds
        begin = time.monotonic()
        with self.change:
            while len(self._links) < self._parties:
                if self._local is not None and not self._links:
                    begin = time.monotonic()  # members may take their time between two runs
                left = begin + limit - time.monotonic()
                if left <= 0.0:
                    raise self._late(limit)
                self.change.wait(self._pause(left))
                if len(self._links) < self._parties:  # else they may speak already
                    self._dismiss_leavers()
                    if time.monotonic() - self._told > _SAYING:
                        self._tell()
            self._is_dealing = True
            return dict(self._links), self._keys

    def correspondence(self, links: dict[int, Link], hear: Hear, lose: Lose) -> Post | Links:
        """Returns the messages of all who have gathered.

        In a federation a party whose connection breaks comes back here, as long as the door is
        open.

        Args:
            links: of `gather`.
            hear: of `extensions.transport.post.Post`.
            lose: likewise.
        """
        if self._returning is None:
            return Links(links, hear, lose)
        return at_dealer(links, _DEALERS, self._returning, hear, lose)

    def clear(self) -> list[str]:
        """All seats are free again; returns why the latest visitors were refused since then."""
        with self.change:
            if self._returning is not None:
                self._returning.close()
                self._returning = None
            for link in self._links.values():
                link.close()
            self._links, self._keys = {}, {}
            self._runs.clear()  # which visits look at
            self._is_dealing = False
        return self.forget()

    def receive(self, connection: socket.socket) -> Offer:
        """Returns a connection that has proved who it is, or else its keys, and its seat."""
        if self._local is not None:
            return admit(self._local, connection, self._runs, STAY, lambda: self._returning)
        with Wire(connection, "a visitor", STAY) as wire:
            visit = Visit(self._parties, self._runs)
            while visit.seat is None:
                if answer := visit.hear(wire.read(visit.due)):
                    wire.write(answer)
                if visit.refused:
                    raise BrokenFrameError("a visitor was refused")
            return wire.keep(), visit.seat

    def settle(self, guest: Offer) -> None:
        """Gives a seat, unless another visitor was faster, or this one has gone again."""
        connection, seat = guest
        if not seat.key:
            self._take_back(connection, seat)
            return
        link = Link(connection, seat.frames, largest=LARGEST_REQUEST, patience=_REQUEST_TIME)
        self._dismiss_leavers()  # nobody may speak before the last seat is taken
        others = {*self._runs.values()} - {seat.run}
        if seat.rank in self._runs or others or link.stream.is_readable():
            link.close()
            return
        self._links[seat.rank], self._keys[seat.rank] = link, seat.key
        self._runs[seat.rank] = seat.run
        self._greet(seat.rank, seat.public)
        if self._local is not None and len(self._links) == self._parties:
            self._returning = self._returning or Returning({})
        self._tell()

    def close(self, guest: Offer) -> None:
        """Its connection is closed."""
        guest[0].close()

    def _take_back(self, connection: socket.socket, seat: Seat) -> None:
        """A party goes on over another connection."""
        if self._returning is None or not isinstance(connection, ssl.SSLSocket):
            connection.close()
        else:
            self._returning.give(seat.rank, connection)

    def _pause(self, left: float) -> float | None:
        """Seconds until somebody may have left, or all have stayed for too long; None: no limit."""
        if self._links:
            return min(left, _ASKING)
        return left if self._local is None and math.isfinite(left) else None

    def _late(self, seconds: float) -> PartyLostError:
        missing = sorted(set(range(self._parties)) - self._links.keys())
        others = "".join(f", nor has party {one}" for one in missing[1:])
        how = "with its address" if self._local is None else "of the federation"
        return PartyLostError(
            missing[0],
            f"has not come to the dealer within {seconds:g} s{others}. Start the dealer, "
            f"and all {self._parties} parties {how}. " + " ".join(self.refused),
        )

    def _dismiss_leavers(self) -> None:
        for rank, link in list(self._links.items()):
            if link.stream.is_readable() or link.stream.has_vanished:
                self._leave(rank, link)

    def _leave(self, rank: int, link: Link) -> None:
        """A seat is free again: its party has gone, or speaks although it was not asked."""
        if self._links.get(rank) is link:
            del self._links[rank], self._keys[rank], self._runs[rank]
            link.close()
            self._tell()

    def _tell(self) -> None:
        """The seated know who is missing, the newest first; who cannot be told loses its seat."""
        self._told = time.monotonic()
        missing = awaiting(set(range(self._parties)) - self._links.keys())
        for rank, link in reversed(list(self._links.items())):
            try:
                link.send_at_once(missing)
            except OSError:
                self._leave(rank, link)
                return
