"""The owners of an alignment, connected: what they send each other, what each does, who is lost."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

from extensions.errors import PartyLostError
from extensions.runs.processes import Silence
from extensions.transport import Mesh
from extensions.transport.kernel import stopped
from extensions.transport.reconnecting import RETURN
from extensions.transport.reliable_channel import ReliableChannel

Show = Callable[[str, int, int], None]
"""Takes what is done now, how much of it, and of how much."""
_DATA, _STATUS, _FAREWELL = b"d", b"s", b"f"
_LARGEST, _LONGEST = 1 << 20, 200
_BEAT, _GOODBYE = 2.0, 5.0


class Owners:
    """Messages to and from the other owners, until the `with` block ends.

    Every owner tells the others what it does every two seconds, whatever it computes meanwhile, and
    if it ends by an error who was lost, or that it failed.

    Args:
        mesh: connections with all others, for this object alone.
        names: of all owners, by rank.
        show: called in the thread that waits or computes.
        silence: seconds without a word after which an owner is lost.

    Raises:
        PartyLostError: by every method, naming the owner that was lost first: within seconds if its
            port refuses connections, within `RETURN` if it was dialled by nobody.
    """

    def __init__(
        self, mesh: Mesh, names: Sequence[str], show: Show, silence: float = 1.5 * RETURN
    ) -> None:
        self.rank, self.names = mesh.rank, names
        self._show, self._limit = show, silence
        self._change, self._over = threading.Condition(), threading.Event()
        self._inbox = {rank: deque[bytes]() for rank in mesh.others}
        self._status = dict.fromkeys(mesh.others, "begins")
        self._spoke, self._left = set[int](), set[int]()
        self._lost: PartyLostError | None = None
        self._own = "begins"
        self._channel = ReliableChannel(mesh, _LARGEST, self._hear, self._lose)
        self._beating = threading.Thread(target=self._beat)

    def __enter__(self) -> Self:
        self._beating.start()
        return self

    def __exit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        self._over.set()
        self._beating.join(_GOODBYE)
        word = "" if error is None else f"{self.rank} ended by {type(error).__name__}"
        if isinstance(error, PartyLostError):
            word = f"{error.rank} {_reason(error)}"
        for rank in self._inbox:
            self._channel.send_last(rank, _FAREWELL + word.encode())
        with self._change:  # who closes what is still written to takes away what it sent last
            self._change.wait_for(
                lambda: error or self._lost or len(self._left) == len(self._inbox), _GOODBYE
            )
        self._channel.close()

    def doing(self, what: str, done: int, total: int) -> None:
        """The others learn what this owner does, at their next look."""
        self._own = f"{what}, {done:,} of {total:,}"
        self._show(what, done, total)
        self._check()

    def send(self, rank: int, message: bytes) -> None:
        """The message is on its way, or kept until it can be."""
        try:
            self._channel.send(rank, _DATA + message)
        except PartyLostError:
            self._check()
            raise

    def receive(self, rank: int) -> bytes:
        """Returns the next message of an owner; shows meanwhile what that one does."""
        name = self.names[rank]
        with self._change:
            while not self._inbox[rank]:
                self._check()
                if rank in self._left:
                    raise PartyLostError(rank, f"({name}) has left")
                self._own = f"waits for {name}"
                self._show(f"waiting for {name}, which {self._status[rank]}", 0, 0)
                self._change.wait(_BEAT)
            return self._inbox[rank].popleft()

    def exchange(self, message: bytes) -> list[bytes]:
        """Returns what all owners say, by rank."""
        for rank in self._inbox:
            self.send(rank, message)
        ranks = range(len(self.names))
        return [message if rank == self.rank else self.receive(rank) for rank in ranks]

    def _check(self) -> None:
        if self._lost is not None:
            raise self._lost

    def _hear(self, rank: int, message: bytes | bytearray) -> None:
        kind, body = bytes(message[:1]), bytes(message[1:])
        with self._change:
            self._spoke.add(rank)
            if kind == _DATA:
                self._inbox[rank].append(body)
            text = "".join(filter(str.isprintable, body[:_LONGEST].decode(errors="replace")))
            if kind == _STATUS:
                self._status[rank] = text
            elif kind == _FAREWELL and text:
                first, _, reason = text.partition(" ")
                lost = int(first) if first in map(str, range(len(self.names))) else rank
                self._lost = self._lost or PartyLostError(lost, reason)
            elif kind == _FAREWELL:
                self._left.add(rank)
            self._change.notify_all()

    def _lose(self, rank: int, error: PartyLostError) -> None:
        with self._change:
            if rank not in self._left:
                named = PartyLostError(rank, f"({self.names[rank]}) {_reason(error)}")
                self._lost = self._lost or named
            self._change.notify_all()

    def _beat(self) -> None:
        silence, before = Silence[int](), time.monotonic()
        while not self._over.wait(_BEAT):
            for rank in self._inbox:
                with suppress(PartyLostError):
                    self._channel.send(rank, _STATUS + self._own.encode())
            now = time.monotonic()
            spoke, self._spoke = self._spoke, set()
            silence.hear({rank: rank in spoke for rank in self._inbox}, min(now - before, 6.0))
            before = now
            for rank in set(silence.longest(self._limit)) - self._left:
                self._lose(rank, PartyLostError(rank, stopped(self._limit)))
                self._channel.dismiss(rank)  # who waits to send to it waits no longer


def _reason(error: PartyLostError) -> str:
    return str(error).removeprefix(f"party {error.rank} ")
