"""Parties watch each other while a computation runs, though started by hand on several hosts.

    crypten.init()
    with watch_parties():
        ...                      # the computation

Each party writes its status to the store at which the parties met: a count that rises while it
works, and at the end a farewell. A party whose status stops changing is lost. Every other party
then ends and names it, rather than wait for it inside a collective operation.
"""

from __future__ import annotations

import atexit
import faulthandler
import itertools
import os
import threading
import time
from types import TracebackType
from typing import Any, Self

from crypten_ext import dealer, transport
from crypten_ext.processes.connections import Connections
from crypten_ext.processes.failures import is_connection_loss
from crypten_ext.processes.interruption import Interruption
from crypten_ext.processes.peers import UNSAID, Peers, farewell_of
from crypten_ext.processes.store import default_store
from extensions.checks import check_seconds
from extensions.errors import ArgumentError, LostError, PartyLostError, PeaError
from extensions.runs.processes import LOST_STATUS, Failure, Silence, end_with
from extensions.transport.kernel import stopped

INTERVAL, SILENCE = 2.0, 20.0
_HOST = 0
_LAST_SECONDS = 10
_CUT_SILENCES = 3
_TICK = 0.05
_sessions = itertools.count()


class Watch:
    """The other parties' state, kept by two threads until the `with` block ends.

    One thread exchanges statuses through the store. The other notices when the store no longer
    answers. If a party is lost while the main thread is blocked, it cuts the connections in which
    that waits, and interrupts what that computes or else waits for, such as the lock of a file that
    the lost one holds; if it may not, it ends the process.

    Args:
        store: at which the parties met.
        has_host: whether it ends with party 0.
        rank: of this party.
        world_size: number of parties.
        interval: seconds between two statuses of one party.
        silence: seconds without a new status after which a party is lost.
        cuts: whether `connections` may be cut at a loss: those that this process opens from now on.

    Edge cases:
        the party that hosts a TCP store waits at the end of its block until the others have left
        too, for at most `silence` seconds; those that work longer are no longer watched, and learn
        of a loss only from a broken connection.
    """

    def __init__(
        self,
        store: Any,
        *,
        has_host: bool,
        rank: int,
        world_size: int,
        interval: float = INTERVAL,
        silence: float = SILENCE,
        cuts: bool = False,
    ) -> None:
        self._server = store
        self._store = store.clone()
        self._host = _HOST if has_host else None
        self._rank = rank
        self._interval = interval
        self._silence = self._limit = silence
        self._key = f"watch_parties/{next(getattr(store, 'watches', _sessions))}/"
        self._peers = Peers(peer for peer in range(world_size) if peer != rank)
        self._exchanges = 0
        self._cut = False
        self._farewell = ""
        self._verdict: LostError | None = None
        self.connections = Connections() if cuts else None
        self._interruption = Interruption()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._known = threading.Event()
        self._in_hand = threading.Event()
        self._told = threading.Event()
        self._all_left = threading.Event()
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=loop, daemon=True) for loop in (self._talk, self._guard)
        ]

    def __enter__(self) -> Self:
        if self.connections is not None:
            self._interruption.begin()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._interruption.end()
        self._in_hand.set()
        lost: LostError | None = None
        if error is None or (isinstance(error, SystemExit) and not error.code):
            self._leave("bye")
            return
        consequence = self._cut and isinstance(error, Exception | KeyboardInterrupt)
        consequence |= self._verdict is not None and isinstance(error, LostError)
        echo = consequence or is_connection_loss(Failure.of(error))
        if echo and error is not self._verdict:
            if isinstance(error, PartyLostError):  # over TLS, which waits for a party to come back
                self._ask_all(self._interval)
                lost = self.explain(error, wait=0.0)
            else:
                lost = self.explain(error)
        self._leave("" if echo else farewell_of(error))
        atexit.register(_end_in_time)
        self._cut_connections()
        if lost is not None and lost is not error:
            raise lost from error

    def _cut_connections(self) -> None:
        """No thread waits for another party any more."""
        if self.connections is not None:
            self._cut = True
            _end_returning()
            self.connections.cut()

    def explain(self, error: BaseException, *, wait: float | None = None) -> LostError:
        """The error that names who was lost first, given what that caused here.

        Args:
            error: What a collective operation raised when a connection broke.
            wait: Seconds to wait for the parties' statuses; the default finds a silent party.
        """
        self._in_hand.set()
        self._limit = min(self._silence, 5 * self._interval)
        self._known.wait(self._silence + 3 * self._interval if wait is None else wait)
        if self._verdict is None:
            likely = self._peers.likely_lost(out_of_touch=self._known.is_set())
            if isinstance(error, PartyLostError):
                likely = error
            reason = "lost a connection, though every party still answers"
            self._conclude(likely or PartyLostError(self._rank, reason))
        assert self._verdict is not None
        return self._verdict

    def look(self) -> None:
        """The statuses are exchanged now: a connection broke, and others may know why."""
        self._wake.set()

    def _ask_all(self, seconds: float) -> None:
        """Returns once the statuses were exchanged anew, or why the run ends is known."""
        due, deadline = self._exchanges + 2, time.monotonic() + seconds  # one may be on its way
        while self._exchanges < due and time.monotonic() < deadline:
            self._wake.set()
            if self._known.wait(_TICK):
                return

    def _conclude(self, lost: LostError) -> None:
        """The first verdict stands, and the other parties are told."""
        with self._lock:
            if self._verdict is None:
                self._verdict = lost
                self._farewell = self._farewell or farewell_of(lost)
        self._known.set()
        self._wake.set()

    def _leave(self, farewell: str) -> None:
        self._farewell = self._farewell or farewell
        self._wake.set()
        self._told.wait(_LAST_SECONDS)
        if self._rank == self._host:
            self._all_left.wait(self._silence)
        self._over.set()
        self._wake.set()
        for thread in self._threads:
            thread.join(self._interval)

    def _talk(self) -> None:
        before = time.monotonic()
        while not self._over.is_set():
            farewell = self._farewell
            try:
                heard = self._exchange(farewell or f"alive {self._exchanges}")
            except RuntimeError:
                self._lose_store("does not answer any more at the store where the parties met")
                return
            now = time.monotonic()
            step, before = min(now - before, 3 * self._interval), now
            self._exchanges += 1
            self._peers.hear(heard, step)
            if farewell:
                self._told.set()
            elif lost := self._peers.lost(self._limit):
                self._conclude(lost)
            verdict = self._verdict
            gone = verdict.rank if isinstance(verdict, PartyLostError) else None
            if self._peers.nobody_left(self._limit, gone):
                self._all_left.set()
            self._wake.wait(self._interval)
            self._wake.clear()

    def _exchange(self, own: str) -> dict[int, str]:
        """Returns the peers' latest statuses; one round trip each, without waiting for new ones."""
        self._store.set(f"{self._key}{self._rank}", own)
        heard = {}
        for peer in self._peers.ranks:
            said: bytes = self._store.compare_set(f"{self._key}{peer}", UNSAID, UNSAID)
            heard[peer] = said.decode(errors="replace")
        return heard

    def _lose_store(self, reason: str) -> None:
        """The store's host is lost, or, if it had said goodbye, watching ends without a verdict."""
        if self._host not in self._peers.ranks:
            self._conclude(PartyLostError(self._rank, "cannot reach its rendezvous store any more"))
        elif self._peers.said_bye(self._host):
            self._known.set()
        else:
            self._conclude(PartyLostError(self._host, reason))
        self._told.set()
        self._all_left.set()

    def _guard(self) -> None:
        store, seen, before = Silence[int](), 0, time.monotonic()
        while not self._known.wait(self._interval / 2):
            if self._over.is_set():
                return
            now = time.monotonic()
            step, before = min(now - before, self._interval), now
            store.hear({_HOST: self._exchanges != seen}, step)
            seen = self._exchanges
            if store.longest(self._silence):
                self._lose_store(stopped(self._silence))
        if self.connections is not None:
            _end_returning()
        is_end = self._rank == self._host and self.connections is None  # also of the store
        if self._verdict is None or self._in_hand.wait((4 if is_end else 2) * self._interval):
            return
        if self.connections is not None:
            self._cut_connections()
            if self._in_hand.wait(self._interval):
                return
            self._interruption.ask()
            if self._in_hand.wait(_CUT_SILENCES * self._silence):
                return
        os.write(2, f"{self._verdict}\n".encode())
        end_with(self._verdict, LOST_STATUS)


def _end_returning() -> None:
    """Nobody waits any more for a party whose connection broke."""
    if (mesh := transport.current()) is not None:
        mesh.stop_reconnecting()
    dealer.stop_reconnecting()


def _end_in_time() -> None:
    """The process ends with status 1 if its end takes too long.

    gloo's threads may wait for each other across parties while the interpreter shuts down; this
    watchdog needs no interpreter.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    faulthandler.dump_traceback_later(_LAST_SECONDS, exit=True, file=nowhere)


def watch_parties(*, interval: float = INTERVAL, silence: float = SILENCE) -> Watch:
    """A watch over the parties of an initialised CrypTen, to be entered by all of them at once.

    A lost party ends the block with a PartyLostError that names it; a process whose main thread
    is blocked prints the same message to stderr and ends with status 70.

    Args:
        interval: Seconds between two statuses of one party.
        silence: Seconds without a new status after which a party is lost, at least three
            intervals. Once a connection broke, five intervals are enough.

    Raises:
        PeaError: CrypTen is not initialised with one process a party.
    """
    import torch.distributed as dist

    from crypten import communicator

    check_seconds("interval", interval)
    if not silence >= 3 * interval:
        raise ArgumentError("silence", silence, f"at least three intervals, {3 * interval:g} s")
    if not (communicator.is_initialized() and dist.is_initialized()):
        raise PeaError("watch_parties() needs CrypTen: call crypten.init() first.")
    (store, port), met, mesh = default_store(), transport.session(), transport.current()
    board = None if met is None else met.board
    watch = Watch(
        store if board is None else board,
        has_host=port is not None or board is not None,
        rank=communicator.get().get_rank(),
        world_size=communicator.get().get_world_size(),
        interval=interval,
        silence=silence,
    )
    if mesh is not None:
        mesh.on_break(watch.look)
    return watch
