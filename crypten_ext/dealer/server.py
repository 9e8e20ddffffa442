"""The dealer: it holds no data, and learns only which kinds and shapes of tuples are used.

Of noise that it deals it learns the scale, and the noise itself, which it draws.
"""

from __future__ import annotations

import hashlib
import math
import os
import socket
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import zip_longest
from queue import Empty, SimpleQueue

from crypten_ext.dealer import messages
from crypten_ext.dealer.connection import LARGEST, DealerListener
from crypten_ext.dealer.messages import Announcement, Tag
from crypten_ext.dealer.recipe import Shares
from crypten_ext.dealer.requests import Request
from crypten_ext.dealer.streams import correction_of, portion
from crypten_ext.local_dealer import serving_locally
from crypten_ext.masks.keystream import KEY_BYTES
from extensions.errors import PartyLostError
from extensions.ring.fixed_point import Integers
from extensions.rules import Whole
from extensions.transport import Local

BACKLOG = 1024
"""Connections that wait to be let in, so that a crowd of strangers does not keep parties out."""
AHEAD = 2
"""Steps whose corrections are sent before they begin, one of them while the step before works."""
_LONGEST_REASON = 300
_WAITING = 2 * LARGEST
"""Bytes of a party's messages that may wait to be heard, each counted with `_ENVELOPE` more."""
_ENVELOPE = 256
_LEAD = messages.LONGEST_STEP
"""Messages by which a party may be ahead of another: a whole step, asked for tuple by tuple."""

View = Callable[[int, bytes], None]


@dataclass
class _Plan:
    rank: int
    generation: int
    sequence: int
    requests: tuple[Request, ...]
    position: int = 0
    steps: int = AHEAD


@dataclass(frozen=True)
class Dealt:
    """What a dealer did: number of tuples, and bytes of corrections."""

    tuples: int
    bytes: int


def serve(
    listener: socket.socket,
    parties: int,
    *,
    local: Local | None = None,
    view: View | None = None,
    join_timeout: float | None = None,
) -> Dealt:
    """Deals for one run, from the first party's arrival to the last one's goodbye.

    Args:
        listener: where the parties connect; it is closed in the end.
        parties: number of parties.
        local: the dealer's end, whose federation's parties alone get seats; None: they are this
            user's processes on this machine, and keys are made for this run
            (`crypten_ext.local_dealer.serving_locally`).
        view: called with the rank and the content of everything that a party sends.
        join_timeout: seconds within which all parties must have come; None: whatever it takes.

    Guarantees:
        Until all parties have their seats nothing that connects ends the dealer, and a party that
        leaves may come again (`crypten_ext.dealer.connection.DealerListener`). One whose connection
        breaks later comes back within `extensions.transport.reconnecting.RETURN` seconds.

    Raises:
        ArgumentError: without `local` it listens where other hosts may reach it.
        PartyLostError: a party did not come in time; or one closed its connection without a goodbye
            and was not back in time, sent a message that cannot be used, or asked for other tuples
            than another party.
    """
    Whole(1, 64).check("parties", parties)
    with ExitStack() as stack:
        local = local or stack.enter_context(serving_locally(listener, parties))
        door = stack.enter_context(_listener(listener, local))
        keys = door.gather(math.inf if join_timeout is None else join_timeout, after_first=False)
        return _Dealer(door, keys, view or _see_nothing).run()


def serve_runs(
    listener: socket.socket, local: Local, join_timeout: float | None = None
) -> Iterator[tuple[Dealt | PartyLostError, list[str]]]:
    """Deals for run after run of a federation, each with keys of its own; the port stays open.

    Whoever comes for another run while one is dealt for is told so, and may try again. All parties
    of a run must have come within `join_timeout` seconds after its first.

    Yields:
        what was dealt in a run, or why it ended early; and why connections were refused since the
        run before.
    """
    seconds = math.inf if join_timeout is None else join_timeout
    with _listener(listener, local) as door:
        while True:
            ended: Dealt | PartyLostError
            try:
                keys = door.gather(seconds, after_first=True)
                ended = _Dealer(door, keys, _see_nothing).run()
            except PartyLostError as lost:
                ended = lost
            yield ended, door.clear()


def _listener(listener: socket.socket, local: Local) -> DealerListener:
    listener.listen(BACKLOG)
    return DealerListener(local, listener)


def _see_nothing(rank: int, message: bytes) -> None:
    """Nobody looks at what the parties send."""


class _Dealer:
    """One run for the parties that have come in by the door."""

    def __init__(self, door: DealerListener, keys: Sequence[bytes], view: View) -> None:
        self._parties = len(keys)
        self._present, self._keys, self._view = {*range(self._parties)}, keys, view
        self._own_key = os.urandom(KEY_BYTES)
        self._repeats: list[deque[bytes]] = [deque() for _ in keys]
        self._received, self._heard = [0] * len(keys), [0] * len(keys)
        self._lost: set[int] = set()
        self._plan: _Plan | None = None
        self._kept: dict[Request, Shares] = {}
        self._tuples = self._bytes = 0
        self._inbox: SimpleQueue[tuple[int, bytes | bytearray | PartyLostError]] = SimpleQueue()
        self._post = door.correspondence(self._receive, self._lose)

    def run(self) -> Dealt:
        try:
            self._serve()
        except PartyLostError as lost:
            for rank in self._present:
                self._post.send_last(rank, messages.farewell(lost))
            raise
        finally:
            self._post.close()
        return Dealt(self._tuples, self._bytes)

    def _serve(self) -> None:
        while self._present:
            try:
                busy = self._plan is not None and self._plan.steps > 0
                rank, said = self._inbox.get(block=not busy)
            except Empty:
                self._stream()
                continue
            if rank not in self._present:
                continue  # it has left
            if isinstance(said, PartyLostError):
                raise said
            self._heard[rank] += len(said) + _ENVELOPE
            if self._hear(rank, said):
                self._present.remove(rank)
                self._post.dismiss(rank)

    def _receive(self, rank: int, message: bytes | bytearray) -> None:
        self._received[rank] += len(message) + _ENVELOPE
        if self._received[rank] - self._heard[rank] <= _WAITING:
            self._inbox.put((rank, message))
        else:
            reason = "sent the dealer more than it can be owed answers to"
            self._lose(rank, PartyLostError(rank, reason))

    def _lose(self, rank: int, lost: PartyLostError) -> None:
        """A thread has lost a party; the first reason counts."""
        if rank not in self._lost:
            self._lost.add(rank)
            self._inbox.put((rank, lost))

    def _hear(self, rank: int, message: bytes | bytearray) -> bool:
        """Returns whether the message that this party sent was its goodbye."""
        if not message:
            raise PartyLostError(rank, "sent the dealer an empty message")
        self._view(rank, bytes(message))
        digest, due = hashlib.sha256(message).digest(), self._repeats[rank]
        if due and due[0] == digest:
            due.popleft()
            return False
        try:
            said = messages.parse(message)
        except ValueError as error:
            reason = f"sent the dealer an unusable message: {_brief(error)}"
            raise PartyLostError(rank, reason) from error
        if said.say == "bye":
            self._plan = None
            return True
        if due:
            raise PartyLostError(rank, "asked the dealer for other tuples than another party")
        for other in self._present - {rank}:
            if len(self._repeats[other]) == _LEAD:
                reason = f"sent the dealer {_LEAD} messages that party {other} has not sent"
                raise PartyLostError(rank, reason)
            self._repeats[other].append(digest)
        self._follow(rank, said)
        return False

    def _follow(self, rank: int, said: Announcement) -> None:
        """Does what a party says that is the first to say it."""
        if said.say == "step" and self._plan is not None:
            self._plan.steps += 1
        elif said.say == "plan":
            self._plan = _Plan(rank, said.generation, said.sequence, said.requests)
        elif said.say == "tuple":
            self._plan = None
            (request,) = said.requests
            self._deal(rank, request, said.generation, said.sequence)

    def _stream(self) -> None:
        plan = self._plan
        assert plan is not None
        self._deal(plan.rank, plan.requests[plan.position], plan.generation, plan.sequence)
        plan.sequence += 1
        plan.position += 1
        if plan.position == len(plan.requests):
            plan.position = 0
            plan.steps -= 1

    def _deal(self, asker: int, request: Request, generation: int, sequence: int) -> None:
        try:
            correction = correction_of(self._keys, self._own_key, sequence, request, self._kept)
        except Exception as error:  # whatever a request of nonsense makes torch raise
            reason = f"asked the dealer for what cannot be dealt: {_brief(error)}"
            raise PartyLostError(asker, reason) from error
        self._send(Tag(generation, sequence, request.digest), correction)
        self._tuples += 1
        self._bytes += correction.nbytes

    def _send(self, tag: Tag, correction: Integers) -> None:
        """Sends each party its words; those of a large tuple in turns, so that all links work."""
        words = {
            rank: correction[portion(len(correction), tag.sequence, rank, self._parties)]
            for rank in self._present
        }
        for turn in zip_longest(*(messages.pieces(len(own)) for own in words.values())):
            for rank, piece in zip(words, turn, strict=True):
                if piece is not None:
                    self._post.send(rank, messages.pack(tag, words[rank][piece]))


def _brief(error: BaseException) -> str:
    """Returns the beginning of the first line."""
    return "".join(str(error).splitlines()[:1])[:_LONGEST_REASON]
