"""The dealer's door: everybody may knock, nobody can hold it, and whoever has a seat may leave it.

Who knocks is not known: until identities are part of the connection, the first to prove the keys of
a seat has it. What a stranger can do before that is bounded in bytes, in time and in number.
"""

from __future__ import annotations

import math
import selectors
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

from crypten_ext.dealer.connection.frames import BrokenFrameError
from crypten_ext.dealer.connection.handshake import Seat, Visit, awaiting
from crypten_ext.dealer.connection.link import Link, prepare
from extensions.errors import PartyLostError

VISITORS = 128
"""Connections without a seat at a time, fewer where a process may have fewer: the oldest leaves for
the newest."""
STAY = 10.0
"""Seconds from the arrival of a visitor to its seat."""
LARGEST_REQUEST = 32 << 20
"""Bytes of a message of a party: a plan of 100,000 tuples has some 10 MB."""
_REQUEST_TIME = 60.0
_ARRIVALS = 32
_BREATHER = 0.05


@dataclass
class _Visitor:
    connection: socket.socket
    visit: Visit
    latest: float


class Door:
    """Where parties get their seats, and strangers nothing.

    Args:
        listener: where everybody connects.
        parties: number of parties.
        greet: called with the rank and public value of whoever takes a seat.
        seconds: within which all parties must have their seats; None: there is no limit.

    Guarantees:
        No connection ends the gathering or keeps another one waiting. Each has `STAY` seconds and
        sends at most two messages of fixed length, and `VISITORS` are in at a time. All seats are
        of one run, and of parties with the dealer's software.
    """

    def __init__(
        self,
        listener: socket.socket,
        parties: int,
        greet: Callable[[int, bytes], None],
        seconds: float | None = None,
    ) -> None:
        self._listener = listener
        self._parties = parties
        self._greet = greet
        self._seconds = seconds
        self._latest = math.inf if seconds is None else time.monotonic() + seconds
        self._visitors: dict[socket.socket, _Visitor] = {}  # the oldest first
        self._links: dict[int, Link] = {}
        self._keys: dict[int, bytes] = {}
        self._runs: dict[int, bytes] = {}
        self._selector = selectors.DefaultSelector()

    def gather(self) -> tuple[dict[int, Link], dict[int, bytes]]:
        """Returns links and tuple keys by rank, once every seat is taken; the door then closes.

        Cost:
            One X25519 exchange a visitor that says hello.

        Raises:
            PartyLostError: a party has no seat at the end of the time; the first such is named.
        """
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ, self._let_in)
        try:
            while len(self._links) < self._parties:
                for key, _ in self._selector.select(self._pause()):
                    key.data()
                self._show_out()
                self._check_time()
        except BaseException:
            for link in self._links.values():
                link.close()
            raise
        finally:
            for visitor in list(self._visitors.values()):
                self._dismiss(visitor)
            self._selector.close()
            self._listener.close()
        return self._links, self._keys

    def _pause(self) -> float | None:
        """Seconds until the next visitor has stayed for too long, or all have; None: no limit."""
        oldest = next((visitor.latest for visitor in self._visitors.values()), math.inf)
        latest = min(oldest, self._latest)
        return max(0.0, latest - time.monotonic()) if math.isfinite(latest) else None

    def _check_time(self) -> None:
        missing = sorted(set(range(self._parties)) - self._links.keys())
        if missing and time.monotonic() >= self._latest:
            others = "".join(f", nor has party {one}" for one in missing[1:])
            raise PartyLostError(
                missing[0],
                f"has not come to the dealer within {self._seconds:g} s{others}. Start the dealer, "
                f"and all {self._parties} parties with its address as --dealer.",
            )

    def _let_in(self) -> None:
        for _ in range(_ARRIVALS):
            try:
                connection, _address = self._listener.accept()
            except BlockingIOError:
                return
            except OSError:  # no descriptor is free, or whoever came has gone
                self._make_room()
                return
            connection.setblocking(False)
            visit = Visit(self._parties, self._runs)
            visitor = _Visitor(connection, visit, time.monotonic() + STAY)
            self._visitors[connection] = visitor
            self._selector.register(
                connection, selectors.EVENT_READ, lambda one=visitor: self._attend(one)
            )
            if len(self._visitors) > VISITORS:
                self._make_room()

    def _make_room(self) -> None:
        """The oldest visitor leaves; where there is none, whoever holds descriptors may."""
        for oldest in self._visitors.values():
            self._dismiss(oldest)
            return
        time.sleep(_BREATHER)

    def _show_out(self) -> None:
        now = time.monotonic()
        for visitor in [one for one in self._visitors.values() if one.latest <= now]:
            self._dismiss(visitor)

    def _attend(self, visitor: _Visitor) -> None:
        """One visitor's next bytes are answered; whatever is wrong with them is its end alone."""
        if visitor.connection not in self._visitors:
            return
        try:
            data = visitor.connection.recv(visitor.visit.due)
            answer = visitor.visit.hear(data)
            if answer:
                prepare(visitor.connection)
                visitor.connection.sendall(answer)
        except BlockingIOError:
            return
        except (OSError, BrokenFrameError):
            self._dismiss(visitor)
            return
        if not data or visitor.visit.refused:
            self._dismiss(visitor)
        elif visitor.visit.seat is not None:
            self._seat(visitor, visitor.visit.seat)

    def _dismiss(self, visitor: _Visitor) -> None:
        self._forget(visitor)
        visitor.connection.close()

    def _forget(self, visitor: _Visitor) -> None:
        del self._visitors[visitor.connection]
        self._selector.unregister(visitor.connection)

    def _seat(self, visitor: _Visitor, seat: Seat) -> None:
        self._forget(visitor)
        link = Link(
            visitor.connection, seat.frames, largest=LARGEST_REQUEST, patience=_REQUEST_TIME
        )
        self._links[seat.rank], self._keys[seat.rank] = link, seat.key
        self._runs[seat.rank] = seat.run
        self._selector.register(link, selectors.EVENT_READ, lambda: self._leave(seat.rank, link))
        self._greet(seat.rank, seat.public)
        self._tell()

    def _leave(self, rank: int, link: Link) -> None:
        """A seat is free again: its party has gone, or speaks although it was not asked."""
        if self._links.get(rank) is link:
            del self._links[rank], self._keys[rank], self._runs[rank]
            self._selector.unregister(link)
            link.close()
            self._tell()

    def _tell(self) -> None:
        """The seated know who is missing, the newest first; who cannot be told loses its seat."""
        missing = awaiting(set(range(self._parties)) - self._links.keys())
        for rank, link in reversed(list(self._links.items())):
            try:
                link.send_at_once(missing)
            except OSError:
                self._leave(rank, link)
                return
