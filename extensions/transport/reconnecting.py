"""How connections that broke are replaced: by whom they are dialled again, and for how long.

Whoever dialled a connection dials it again, and the other end takes it at its door: a whole
handshake anew, in which both prove who they are and that they take part in the same run. The
threads here and at the door do that, whatever the process computes meanwhile.
"""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from extensions.checks import check_seconds
from extensions.errors import PeaError
from extensions.transport.kernel import cut, hung_up, silent_for, stopped
from extensions.transport.wire import RejectedError

RETURN = 30.0
"""Seconds within which a party that lost its connection comes back, or is lost."""
SILENCE = 10.0
"""Seconds after which a connection is broken off whose other host answers nothing at all."""
_LOOK = 1.0
Dial = Callable[[float, threading.Event], ssl.SSLSocket]
"""Takes the seconds that are left, and what is set once nobody wants the connection any more."""


class Reconnector:
    """Watches connections, and has others in place of those that broke.

    Args:
        dials: how this host dials those that it dials, by rank.
        seconds: within which a connection is there again, from when the other end was last heard.
        silence: seconds without an answer of the other host after which a connection is broken off.

    Attributes:
        arrived: connections that are there again, by rank.
        on_break: called once whenever a connection breaks, by whoever notices; it must not wait.

    Cost:
        A thread that looks once a second, and one while a connection is dialled again.
    """

    def __init__(
        self, dials: Mapping[int, Dial], seconds: float = RETURN, silence: float = SILENCE
    ) -> None:
        check_seconds("seconds", seconds)
        self._dials, self._seconds, self._silence = dials, seconds, silence
        self._late = f"and was not back within {seconds:g} s."
        self._lock, self._stir, self._over = threading.Lock(), threading.Event(), threading.Event()
        self._ranks: set[int] = set()
        self._watched: dict[int, ssl.SSLSocket] = {}
        self._since: dict[int, float] = {}
        self._why: dict[int, str] = {}
        self._never: dict[int, str] = {}
        self._dialling: set[int] = set()
        self.arrived: dict[int, ssl.SSLSocket] = {}
        self.on_break: Callable[[], None] = lambda: None
        self._woken, self._wakes = socket.socketpair()
        for one in (self._woken, self._wakes):
            one.setblocking(False)
        threading.Thread(target=self._look, daemon=True).start()

    def fileno(self) -> int:
        """A descriptor that can be read once a connection has arrived."""
        return self._woken.fileno()

    def watch(self, rank: int, connection: ssl.SSLSocket) -> None:
        """This is the connection with the host of this rank from now on."""
        with self._lock:
            self._ranks.add(rank)
            self._watched[rank] = connection
            for each in (self._since, self._why, self._never):
                each.pop(rank, None)

    def lose(self, rank: int, reason: str) -> None:
        """The connection with this rank broke: another one is waited for."""
        with self._lock:
            self._watched.pop(rank, None)
            self._break(rank, 0.0)
            self._why.setdefault(rank, reason)
        self._stir.set()

    def verdict(self, rank: int) -> str:
        """Returns what became of a rank whose connection broke; empty while it may come back.

        Of several that are late the first comes first: it may be why the others have gone.
        """
        with self._lock:
            if rank in self.arrived:
                return ""
            away = time.monotonic() - self._since[rank]
            if self._over.is_set():
                return self._why[rank]
            if rank not in self._never and (away < self._seconds or rank != self._first_away()):
                return ""
            return f"{self._why[rank]}; {self._never.get(rank, self._late)}"

    def give(self, rank: int | None, connection: ssl.SSLSocket) -> None:
        """A host has dialled again; of several connections the newest counts."""
        if rank not in self._ranks or rank in self._dials:
            connection.close()
            return
        assert rank is not None
        self._settle(rank, connection)

    def is_away(self, rank: int) -> bool:
        """Whether the connection with this rank broke, and no other one has come."""
        with self._lock:
            return rank in self._since and rank not in self.arrived

    def give_up(self, reason: str) -> None:
        """Who has been away longest never comes back, for this reason."""
        with self._lock:
            if (first := self._first_away()) is not None:
                self._why.setdefault(first, "closed its connection")
                self._never.setdefault(first, reason)
        self.wake()

    def _first_away(self) -> int | None:
        away = self._since.keys() - self.arrived.keys()
        return min(away, key=self._since.__getitem__, default=None)

    def forget(self, rank: int) -> None:
        """Nobody of this rank is waited for or taken from now on."""
        with self._lock:
            self._ranks.discard(rank)
            if rank in self.arrived:
                self.arrived.pop(rank).close()
            for each in (self._watched, self._since, self._why, self._never):
                each.pop(rank, None)

    def wake(self) -> None:
        """Its descriptor can be read, so that who waits for it looks."""
        with suppress(OSError):
            self._wakes.send(b"\0")

    def take(self) -> dict[int, ssl.SSLSocket]:
        """Returns the connections that arrived, by rank, which are the caller's from now on."""
        with self._lock:
            self._quiet()
            found, self.arrived = self.arrived, {}
            return found

    def quiet(self) -> None:
        """Its descriptor cannot be read unless a connection has arrived."""
        with self._lock:
            if not self.arrived:
                self._quiet()

    def stop(self) -> None:
        """Nobody comes back any more, or is dialled again."""
        with self._lock:
            self._over.set()
            for connection in self.arrived.values():
                connection.close()
            self.arrived.clear()
        self._stir.set()

    def close(self) -> None:
        """Nobody comes back, and nobody waits for it."""
        self.stop()
        self._woken.close()
        self._wakes.close()

    def _quiet(self) -> None:
        with suppress(BlockingIOError):
            while self._woken.recv(64):
                pass

    def _settle(self, rank: int, connection: ssl.SSLSocket) -> None:
        with self._lock:
            if self._over.is_set():
                connection.close()
                return
            if rank in self.arrived:
                self.arrived[rank].close()
            self.arrived[rank] = connection
            self.wake()

    def _look(self) -> None:
        while True:
            self._stir.wait(_LOOK)
            self._stir.clear()
            with self._lock:
                if self._over.is_set():
                    return
                for rank, connection in self._watched.items():
                    self._examine(rank, connection)
                for rank, connection in [*self.arrived.items()]:
                    self._examine_arrived(rank, connection)
                due = [
                    rank
                    for rank in self._since
                    if rank in self._dials and not self._is_dealt_with(rank)
                ]
                self._dialling.update(due)
            for rank in due:
                threading.Thread(target=self._dial_again, args=(rank,), daemon=True).start()

    def _is_dealt_with(self, rank: int) -> bool:
        return rank in self._dialling or rank in self.arrived or rank in self._never

    def _examine(self, rank: int, connection: ssl.SSLSocket) -> None:
        """What is left to be read of a connection that the other end closed stays there."""
        silent = silent_for(connection)
        if silent > self._silence:
            cut(connection)
            self._why.setdefault(rank, stopped(self._silence))
        if silent > self._silence or hung_up(connection):
            self._break(rank, silent)

    def _examine_arrived(self, rank: int, connection: ssl.SSLSocket) -> None:
        """One that broke before it was taken is gone: nothing was said by it yet."""
        silent = silent_for(connection)
        if silent > self._silence or hung_up(connection):
            self.arrived.pop(rank).close()
            self._since[rank] = time.monotonic() - silent
            self.on_break()

    def _break(self, rank: int, silent: float) -> None:
        """A connection broke whose other end has been silent for so many seconds."""
        if rank not in self._since:
            self._since[rank] = time.monotonic() - silent
            self.on_break()

    def _dial_again(self, rank: int) -> None:
        try:
            since = self._since.get(rank, time.monotonic())
            left = since + self._seconds - time.monotonic()
            connection = self._dials[rank](max(0.0, left), self._over)
        except (PeaError, OSError) as error:
            gone = isinstance(error, ConnectionRefusedError | RejectedError)
            with self._lock:
                self._never[rank] = str(error) if gone else f"{self._late} {error}"
        else:
            self._settle(rank, connection)
        finally:
            with self._lock:
                self._dialling.discard(rank)
