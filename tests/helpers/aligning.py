"""Owners who align their lists in threads, with TLS between them or without."""

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from threading import Condition
from typing import Any

import numpy as np

from extensions.alignment import (
    AlignmentRing,
    Ids,
    ListStore,
    Owners,
    OwnerTerms,
    Workers,
    ids_of,
)
from extensions.alignment.ids import DTYPE
from extensions.errors import PartyLostError
from extensions.runs.processes.credentials import federation_of
from extensions.runs.processes.meeting import meeting_place
from extensions.transport import Local, Mesh
from tests.helpers.federations import at_once, identities, listeners
from tests.helpers.patience import PATIENCE

ANY_NUMBER = OwnerTerms(least=0)
HEAD = 6
"""Bytes before a block of points."""


def lists_of(*texts: Sequence[str]) -> list[Ids]:
    """Returns the lists of ids that are written so."""
    return [ids_of([each], ["text"]) for each in texts]


def nothing(*_: object) -> None:
    """No ledger, no file, no progress."""


class Post:
    """What owners in one process send each other, all of which is kept.

    Attributes:
        sent: sender, receiver and message, in turn.
        alter: what becomes of a message on its way.
        lost: who was lost, None while nobody is.
    """

    def __init__(self, number: int) -> None:
        self.names = [f"owner-{rank}" for rank in range(number)]
        self.sent: list[tuple[int, int, bytes]] = []
        self.alter: Callable[[int, int, bytes], bytes] = lambda _, __, message: message
        self.lost: PartyLostError | None = None
        self.change = Condition()
        self.waiting = {(a, b): deque[bytes]() for a in range(number) for b in range(number)}


def of_kind(post: Post, receiver: int, number: int, step: int) -> Any:
    """Returns the points of a list as a receiver has got them, in turn."""
    head = bytes([number, step])
    parts = [m[HEAD:] for _, to, m in post.sent if to == receiver and m[:2] == head]
    return np.frombuffer(b"".join(parts), DTYPE)


class PostedOwners(Owners):
    """`Owners` whose messages go by a `Post`; each hears of a loss as it does over TLS."""

    def __init__(self, rank: int, post: Post) -> None:
        self.rank, self.names, self._post = rank, post.names, post
        self._inbox = {other: deque[bytes]() for other in range(len(post.names)) if other != rank}

    def doing(self, what: str, done: int, total: int) -> None:
        """Nobody looks."""

    def send(self, rank: int, message: bytes) -> None:
        """The message is there."""
        with self._post.change:
            self._post.sent.append((self.rank, rank, message))
            self._post.waiting[self.rank, rank].append(self._post.alter(self.rank, rank, message))
            self._post.change.notify_all()

    def receive(self, rank: int) -> bytes:
        """Returns the next message of an owner, unless one is lost."""
        post, waiting = self._post, self._post.waiting[rank, self.rank]
        with post.change:
            assert post.change.wait_for(lambda: waiting or post.lost is not None, PATIENCE)
            if not waiting:
                assert post.lost is not None
                raise post.lost
            return waiting.popleft()


def posted(
    folder: Path,
    lists: Sequence[Ids],
    terms: OwnerTerms = ANY_NUMBER,
    post: Post | None = None,
    enter: Callable[..., object] = nothing,
) -> list[Any]:
    """Returns what each owner found, or the error that it raised; messages go by a post.

    Each owner keeps its part in a folder of its own, ``kept-RANK``.
    """
    by = Post(len(lists)) if post is None else post

    def owner(rank: int) -> Any:
        store = ListStore(folder / f"kept-{rank}", lists[rank].digest)
        try:
            own = AlignmentRing(lists[rank], terms, PostedOwners(rank, by), store, Workers(1))
            return own.run(partial(enter, rank), nothing)
        except BaseException as error:
            with by.change:
                here = PartyLostError(rank, f"ended by {type(error).__name__}")
                by.lost = by.lost or (error if isinstance(error, PartyLostError) else here)
                by.change.notify_all()
            raise

    return at_once(*(partial(owner, rank) for rank in range(len(lists))))


def over_tls(
    folder: Path, lists: Sequence[Ids], terms: OwnerTerms = ANY_NUMBER, processes: int = 1
) -> list[Any]:
    """Returns what each owner found, or the error that it raised, over connections of TLS."""
    names = [f"owner-{rank}" for rank in range(len(lists))]

    def owner(rank: int, mesh: Mesh, stack: ExitStack) -> Any:
        owners = stack.enter_context(Owners(mesh, names, nothing))
        workers = stack.enter_context(Workers(processes))
        store = ListStore(folder / f"kept-{rank}", lists[rank].digest)
        return AlignmentRing(lists[rank], terms, owners, store, workers).run(nothing, nothing)

    return connected(folder, names, owner)


def connected(
    folder: Path, names: Sequence[str], owner: Callable[[int, Mesh, ExitStack], Any]
) -> list[Any]:
    """Returns what each owner returned or raised, called with its rank and connections of TLS.

    What it puts on the stack ends before these do.
    """
    own, places = identities(folder, *names), listeners(len(names))
    federation = federation_of(own, places)
    for place in places:
        place.close()

    def begin(rank: int) -> Any:
        with ExitStack() as stack:
            place = meeting_place(Local(own[rank], federation), PATIENCE, PATIENCE, "align")
            mesh = stack.enter_context(stack.enter_context(place).connected())
            return owner(rank, mesh, stack)

    return at_once(*(partial(begin, rank) for rank in range(len(names))))
