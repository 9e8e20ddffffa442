"""One party's side of the dealing: it expands its share of every tuple, then corrects it."""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch

from crypten_ext.dealer.connection import DEALER, connect
from crypten_ext.dealer.corrections import Corrections
from crypten_ext.dealer.material import Material, check_matching
from crypten_ext.dealer.recipe import Recipe, Shares
from crypten_ext.dealer.recipes import recipe_of
from crypten_ext.dealer.requests import Request
from crypten_ext.dealer.streams import portion, tuple_stream
from crypten_ext.local_dealer import ADDRESS, local_end_at
from crypten_ext.transport import session
from extensions.errors import PeaError
from extensions.runs.processes.credentials import own_credentials
from extensions.transport import Local
from extensions.transport.handshake_messages import NO_RUN

from crypten import communicator

_AHEAD, _AHEAD_WORDS = 2, 1 << 18
"""Tuples that are drawn ahead, each of at most so many words: 2 MiB."""


class Source(Protocol):
    """Where this party gets the corrections of its shares."""

    def take(self, sequence: int, request: Request, words: int) -> torch.Tensor:
        """Returns this party's `words` of the correction of the tuple with this number."""

    def take_ahead(self, sequence: int, request: Request, words: int) -> torch.Tensor | None:
        """Returns what `take` will for an expected tuple; None if it is not here yet."""

    def expected(self, count: int) -> Sequence[Request]:
        """Returns at most `count` tuples that are likely to be asked for next."""

    def begin_step(self, sequence: int) -> None:
        """A step begins with the tuple of this number."""


@dataclass
class _Drawn:
    """A tuple that was drawn before it is asked for; `is_right` once it is corrected."""

    request: Request
    share: Shares
    is_right: bool = False


class Client:
    """A party's tuples; all parties ask for the same tuples in the same order.

    `leave` is called once, when no more tuples are needed.
    """

    def __init__(
        self,
        key: bytes,
        rank: int,
        parties: int,
        *,
        source: Source,
        leave: Callable[[], None],
    ) -> None:
        self._key = key
        self._rank, self._parties = rank, parties
        self._leave = leave
        self._sequence = 0
        self._drawn: deque[_Drawn] = deque()
        self._rehearsal: list[list[Request]] | None = None
        self.source = source
        self.corrected_bytes = 0

    @classmethod
    def connected(cls, find: Callable[[], Local], run: bytes = NO_RUN) -> Client:
        """Returns the client of a running dealer, once all parties have theirs.

        Raises DealerLostError or PartyLostError as `crypten_ext.dealer.connection.connect`.
        """
        seat = connect(find, run)
        local, ahead = seat.local, Corrections(seat.correspond)
        assert local.rank is not None
        parties = len(local.federation.parties)
        return cls(seat.key, local.rank, parties, source=ahead, leave=ahead.finish)

    @classmethod
    def prepared(cls, material: Material) -> Client:
        """Returns the client of a prepared file, which nobody can use again.

        Raises MaterialError if it was used before.
        """
        header, key = material.header, material.begin()
        return cls(key, header.rank, header.parties, source=material, leave=material.finish)

    def deal(self, request: Request) -> list[torch.Tensor]:
        """Returns this party's shares of one tuple: masks, then the words that depend on them.

        Raises:
            DealerLostError: the dealer died, is late, or sent what cannot be used.
            MaterialError: another tuple was prepared.
        """
        recipe = recipe_of(request)
        if self._rehearsal is not None:
            self._rehearsal[-1].append(request)
        drawn = self._take_drawn(request) or self._draw(self._sequence, request)
        own = self._portion(self._sequence, recipe)
        words = self.source.take(self._sequence, request, own.stop - own.start)
        if not drawn.is_right:
            recipe.correct(drawn.share, words, own.start)
        self._sequence += 1
        self.corrected_bytes += 8 * recipe.corrected_words
        return drawn.share

    @property
    def number(self) -> int:
        """That of the tuple that is asked for next."""
        return self._sequence

    def _portion(self, sequence: int, recipe: Recipe) -> slice:
        return portion(recipe.corrected_words, sequence, self._rank, self._parties)

    def _draw(self, sequence: int, request: Request) -> _Drawn:
        stream = tuple_stream(self._key, sequence, request)
        return _Drawn(request, recipe_of(request).expand(stream, self._rank))

    def draw_ahead(self) -> None:
        """Draws shares of the tuples that are likely to be asked for next; corrects them if it can.

        They are shares of no other tuple: a stream depends on its tuple's number and request.
        """
        for place, request in enumerate(self.source.expected(_AHEAD)):
            sequence, recipe = self._sequence + place, recipe_of(request)
            if recipe.words > _AHEAD_WORDS:
                return
            if place == len(self._drawn):
                self._drawn.append(self._draw(sequence, request))
            drawn = self._drawn[place]
            if not drawn.is_right and drawn.request == request:
                own = self._portion(sequence, recipe)
                words = self.source.take_ahead(sequence, request, own.stop - own.start)
                if words is not None:
                    recipe.correct(drawn.share, words, own.start)
                    drawn.is_right = True

    def _take_drawn(self, request: Request) -> _Drawn | None:
        """Returns the next tuple, if it was drawn ahead."""
        drawn = self._drawn.popleft() if self._drawn else None
        return drawn if drawn is not None and drawn.request == request else None

    def begin_step(self) -> None:
        """A step begins (see `crypten_ext.dealer.begin_step`)."""
        if self._rehearsal is not None:
            self._rehearsal.append([])
        self.source.begin_step(self._sequence)

    def rehearse(self) -> list[list[Request]]:
        """Returns a list that grows: the requests before the first step, then those of each."""
        self._rehearsal = [[]]
        return self._rehearsal

    def close(self) -> None:
        """Tells the dealer that this party needs no more, or closes the prepared file."""
        self._leave()


_client: Client | None = None
_run = NO_RUN


def begin_run(digest: str) -> None:
    """The dealer will be told this digest of the run's manifest, in hexadecimal digits."""
    global _run
    _run = bytes.fromhex(digest)


def current() -> Client:
    """Returns this process's client; the first call connects it to the dealer.

    The dealer is that of the federation whose parties have met, or in which a launcher gave this
    process a seat. Otherwise this user started it on this machine, at ``DEALER_ADDRESS``.

    Raises:
        PeaError: no dealer is known.
        DealerLostError: no dealer answers there.
        PartyLostError: another party did not come to it.
    """
    global _client
    if _client is None:
        find, run = _way()
        _client = Client.connected(find, hashlib.sha256(b"tuples of " + run + _run).digest())
    return _client


def _way() -> tuple[Callable[[], Local], bytes]:
    """Returns how this party's end is found, and the run that party 0 drew, if it did."""
    met = session()
    local, run = (own_credentials(), NO_RUN) if met is None else (met.local, met.run)
    if local is not None and local.federation.dealer is not None:
        return lambda: local, run
    if ADDRESS not in os.environ:
        raise PeaError(
            "This run needs a dealer. Start one with `pea dealer` and name it in the federation, "
            f"set the environment variable {ADDRESS} to its HOST:PORT on this machine, or call "
            "crypten_ext.dealer.use_material(PATH). Without a dealer, set crypten.cfg.mpc.provider "
            "to 'PARTIES'."
        )
    world = communicator.get()
    return partial(local_end_at, os.environ[ADDRESS], world.get_rank(), world.get_world_size()), run


def use_material(path: str | os.PathLike[str], settings: dict[str, Any] | None = None) -> None:
    """This party's tuples come from its prepared file; every party calls this, with its own file.

    Args:
        path: of the file that `pea prepare` wrote for this rank.
        settings: of this run, by name; those that the file has as well must be equal there.

    Guarantees:
        A file is used for one run: before the first tuple its key is overwritten, and a copy of it
        is refused to this user. If one party's file cannot be used, no party's is.

    Cost:
        One round.

    Raises:
        ArgumentError: in every party, where a file is not this party's, is damaged, is readable by
            others, is for another run than the others' files, or for other settings.
        MaterialError: it was used before.
        PeaError: tuples are dealt already.
    """
    global _client
    if _client is not None:
        raise PeaError("Tuples were dealt already. Call use_material before the first computation.")
    _client = Client.prepared(check_matching(Path(path), settings or {}))


def disconnect() -> None:
    """Tells the dealer that this process needs no more tuples; a later request connects anew."""
    global _client
    if _client is not None:
        _client.close()
        _client = None


def carried() -> tuple[int, int]:
    """Returns the bytes sent to and received from the dealer, by the kernel's count."""
    source = _client.source if _client is not None else None
    return source.post.carried(DEALER) if isinstance(source, Corrections) else (0, 0)


def stop_reconnecting() -> None:
    """Stops waiting for the dealer to come back once its connection breaks: the run ends."""
    if _client is not None and isinstance(_client.source, Corrections):
        _client.source.post.stop_reconnecting()


def corrected_bytes() -> int:
    """Returns the bytes of all corrections so far, for all parties together."""
    return _client.corrected_bytes if _client is not None else 0
