"""The dealer: it holds no data, and learns which kinds and shapes of tuples are used, no more."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable
from dataclasses import dataclass

from crypten_ext.dealer import messages
from crypten_ext.dealer.messages import Tag
from crypten_ext.dealer.requests import Request
from crypten_ext.dealer.streams import correction_of
from crypten_ext.dealer.wire import BrokenFrameError, Link, accept
from extensions.errors import ArgumentError, PartyLostError

AHEAD = 2
"""Steps whose corrections are sent before they begin, one of them while the step before works."""

View = Callable[[int, bytes], None]


@dataclass
class _Plan:
    generation: int
    sequence: int
    requests: list[Request]
    position: int = 0
    steps: int = AHEAD


@dataclass(frozen=True)
class Dealt:
    """What a dealer did: number of tuples, and bytes of corrections."""

    tuples: int
    bytes: int


def serve(listener: socket.socket, parties: int, *, view: View | None = None) -> Dealt:
    """Deals for one run, from the first party's arrival to the last one's goodbye.

    Args:
        listener: where the parties connect.
        parties: number of parties.
        view: called with the rank and the content of everything that a party sends.

    Raises:
        PartyLostError: a party closed its connection without a goodbye, or sent nonsense.
    """
    if not 1 <= parties <= 64:
        raise ArgumentError("parties", parties, "in 1..64")
    return _Dealer(listener, parties, view or (lambda rank, message: None)).run()


class _Dealer:
    def __init__(self, listener: socket.socket, parties: int, view: View) -> None:
        self._parties = parties
        self._view = view
        self._links: dict[int, Link] = {}
        self._keys: dict[int, bytes] = {}
        self._plan: _Plan | None = None
        self._tuples = self._bytes = 0
        self._listener = listener

    def run(self) -> Dealt:
        try:
            self._gather(self._listener)
            present = dict(self._links)
            while present:
                busy = self._plan is not None and self._plan.steps > 0
                readable, _, _ = select.select(list(present.values()), [], [], 0 if busy else None)
                for rank in [r for r, link in present.items() if link in readable]:
                    if self._hear(rank):
                        present.pop(rank).close()
                if busy and not readable:
                    self._stream()
        except PartyLostError as lost:
            last = self._parties - 1
            if lost.rank != last and last in self._links:
                self._links[last].send_last(messages.farewell(lost))
            raise
        finally:
            for link in self._links.values():
                link.close()
        return Dealt(self._tuples, self._bytes)

    def _gather(self, listener: socket.socket) -> None:
        """Every party is connected; one that leaves before is lost."""
        watched: dict[int, Link] = {}
        while len(self._links) < self._parties:
            sources: list[socket.socket | Link] = [listener, *watched.values()]
            readable, _, _ = select.select(sources, [], [])
            for rank in [r for r, link in watched.items() if link in readable]:
                if watched.pop(rank).has_ended():
                    raise PartyLostError(rank, "closed its connection to the dealer")
            if listener in readable:
                connection, _ = listener.accept()
                party = accept(connection, self._parties, self._links)
                if party is not None:
                    rank, public, self._links[rank], self._keys[rank] = party
                    watched[rank] = self._links[rank]
                    self._view(rank, public)

    def _hear(self, rank: int) -> bool:
        """Returns whether the message that this party sent was its goodbye."""
        try:
            message = self._links[rank].receive()
        except (BrokenFrameError, OSError) as error:
            raise PartyLostError(rank, f"broke its connection to the dealer: {error}") from error
        if not message:
            raise PartyLostError(rank, "closed its connection to the dealer")
        self._view(rank, message)
        said = messages.parse(message)
        if said["say"] == "bye":
            self._plan = self._plan if rank != self._parties - 1 else None
            return True
        if rank != self._parties - 1:
            raise PartyLostError(rank, "asked the dealer for what only the last party may")
        if said["say"] == "step" and self._plan is not None:
            self._plan.steps += 1
        elif said["say"] == "plan":
            self._plan = _Plan(said["generation"], said["sequence"], said["requests"])
        elif said["say"] == "tuple":
            self._plan = None
            (request,) = said["requests"]
            self._deal(request, said["generation"], said["sequence"])
        return False

    def _stream(self) -> None:
        plan = self._plan
        assert plan is not None
        self._deal(plan.requests[plan.position], plan.generation, plan.sequence)
        plan.sequence += 1
        plan.position += 1
        if plan.position == len(plan.requests):
            plan.position = 0
            plan.steps -= 1

    def _deal(self, request: Request, generation: int, sequence: int) -> None:
        keys = [self._keys[rank] for rank in range(self._parties)]
        correction = correction_of(keys, sequence, request)
        last = self._parties - 1
        try:
            self._links[last].send(
                messages.pack(Tag(generation, sequence, request.digest), correction)
            )
        except OSError as error:
            raise PartyLostError(last, f"broke its connection to the dealer: {error}") from error
        self._tuples += 1
        self._bytes += len(correction)
