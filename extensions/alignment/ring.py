"""Intersection of the lists of two or more owners, by commuting keys in a ring.

1. Each owner multiplies the points of its list by its key, shuffles them and sends them to the next
   owner, who does the same, until each list is under all keys.
2. Owner 0, the comparer, finds the points that all lists have.
3. These go round again, and each owner takes its key off and shuffles. What is left are the public
   points of common ids, which each owner finds among its own. They are sorted: that is the order.

Guarantees:
    Against owners who follow the protocol: each learns the intersection, and how many ids the
    others announced. The comparer, or several owners who pool what they see, also learn how many
    ids each group of lists has in common, and of no further id whose it is
    (docs/explanation/alignment.md).

Cost:
    Of m owners of n ids each, i in common: an owner hashes n ids, multiplies m n + i points and
    sends as many, of 32 bytes; at least 2 m + 3 latencies.

Source:
    Meadows, IEEE S&P 1986; Huberman, Franklin and Hogg, EC 1999.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import secrets
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Annotated

import numpy as np
import numpy.typing as npt

from extensions.alignment.curve import POINT, hashed, times_key
from extensions.alignment.ids import DTYPE, Ids, Outline, Points
from extensions.alignment.owners import Owners
from extensions.alignment.store import BLOCK, ListStore
from extensions.alignment.workers import Task, Workers
from extensions.errors import ArgumentError, MessageError, PartyLostError, PeaError
from extensions.rules import Each, Whole, check_fields

COMPARER = 0
"""Rank of the owner who finds what all lists have."""
_HEAD = struct.Struct(">BBI")
_TAG = "PEA-align-V01-with-curve25519_XMD:SHA-512_ELL2_NU_-{}"
_OWN, _DRAW = "list-own", 16
_Source = Callable[[int], Iterator[bytes]]
"""Yields the blocks of a list from one of its points on."""


@dataclass(frozen=True, kw_only=True)
class OwnerTerms:
    """What an owner asks of an alignment.

    Attributes:
        least: fewest common persons; of fewer all learn how many, and nobody learns who.
        most_ids: most ids that a list may have.
        pad_to: number of ids to announce instead of the list's own, which is smaller.
    """

    least: Annotated[int, Whole(0)] = 100
    most_ids: Annotated[int, Whole(1)] = 2_000_000
    pad_to: Annotated[int | None, Whole(1)] = None

    def __post_init__(self) -> None:
        check_fields(self)

    def size(self, ids: Ids) -> int:
        """Returns how many ids are announced; ArgumentError if `pad_to` is too small."""
        number = len(ids.digests)
        words = f"at least {number}, the number of ids"
        Whole(number, words=words).check("pad_to", self.pad_to or number)
        return self.pad_to or number


@dataclass(frozen=True, kw_only=True)
class _Announced:
    """What an owner says before any id is used, and how much of an earlier attempt it has."""

    ids: Annotated[int, Whole(0)]
    outline: Outline
    terms: OwnerTerms
    session: str
    draw: str
    counts: dict[str, int]

    def __post_init__(self) -> None:
        check_fields(self)
        Each(Whole(0)).check("counts", [*self.counts.values()])
        if not all(isinstance(each, str) for each in (self.session, self.draw)):
            raise TypeError("no texts")

    @classmethod
    def read(cls, said: bytes) -> _Announced:
        """Returns what an owner said; ValueError, TypeError or the like if it is nothing."""
        found = json.loads(said)
        outline, terms = Outline(**found.pop("outline")), OwnerTerms(**found.pop("terms"))
        return cls(**found, outline=outline, terms=terms)


@dataclass(frozen=True)
class Common:
    """What an alignment came to.

    Attributes:
        sizes: of all lists, as they were announced, by rank.
        rows: which of this owner's records are of common persons, in the common order, from 0.
        order: SHA-256 of that order, in hexadecimal digits.
    """

    sizes: tuple[int, ...]
    rows: npt.NDArray[np.intp]
    order: str


class AlignmentRing:
    """One owner's part of an alignment, which ends by an exchange after which nobody needs it."""

    def __init__(
        self,
        ids: Ids,
        terms: OwnerTerms,
        owners: Owners,
        store: ListStore,
        workers: Workers,
    ) -> None:
        self._ids, self._terms, self._owners = ids, terms, owners
        self._store, self._workers = store, workers
        self._rank, self._number = owners.rank, len(owners.names)
        self._common = b""

    def run(
        self,
        enter: Callable[[str, tuple[int, ...], int | None], object],
        write: Callable[[Common], object],
    ) -> Common:
        """Returns what the owners have in common.

        Args:
            enter: called with the alignment's name and the sizes of all lists before anything
                about an id is sent, and with the number of common persons once that is known.
            write: called with the result, before the others are told that this owner has it.

        Raises:
            ArgumentError: at every owner: announcements that do not go together, or too few
                common persons; or what `enter` raises.
            PartyLostError: an owner was lost, or sent what is no point.
        """
        session = self._agree()
        sizes = (*self._sizes,)
        enter(session, sizes, None)
        self._owners.exchange(b"ready")
        self._hash(_TAG.format(session).encode())
        on, off = self._store.keys
        for step in range(self._number):
            self._pass((self._rank - step) % self._number, step, on)
        count = self._count()
        enter(session, sizes, count)
        if count < (least := max(one.terms.least for one in self._announced)):
            self._store.remove()
            self._refuse(self._too_few(count, least))
        self._pass(self._number, self._rank, off)
        found = Common(sizes, *self._found(count))
        if len({*self._owners.exchange(found.order.encode())}) > 1:
            raise PeaError("Owners have found different orders: one has sent other points.")
        write(found)
        self._owners.exchange(b"written")
        self._store.remove()
        return found

    def _agree(self) -> str:
        """Returns the name of this alignment, after all have told each other their terms."""
        own = _Announced(
            ids=self._terms.size(self._ids),
            outline=self._ids.outline,
            terms=replace(self._terms, pad_to=None),
            session=self._store.session,
            draw=secrets.token_hex(16),
            counts=self._store.counts(),
        )
        said = self._owners.exchange(json.dumps(asdict(own)).encode())
        self._announced = []
        for rank, each in enumerate(said):
            try:
                self._announced.append(_Announced.read(each))
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
                raise self._wrong(rank, "no announcement of this version") from None
        self._sizes = [one.ids for one in self._announced]
        if (objection := _objection(self._owners.names, self._announced)) is not None:
            self._refuse(objection)
        session, known = own.session, {one.session for one in self._announced}
        if len(known) > 1 or not session:
            draws = "".join(one.draw for one in self._announced)
            session = hashlib.sha256(draws.encode()).hexdigest()[:16]
            for one in self._announced:
                one.counts.clear()
        self._store.begin(session)
        return session

    def _too_few(self, count: int, least: int) -> ArgumentError:
        hint = "A model of so few persons protects nobody well. No owner has learnt who they are."
        if not count:
            hint = f"Are ids written alike? {_outlines(self._owners.names, self._announced)}."
        return ArgumentError("least", f"{count} common ids", f"at least {least}", hint, code="data")

    def _refuse(self, error: ArgumentError) -> None:
        """Raises what all owners raise, once all can."""
        with suppress(PartyLostError):
            self._owners.exchange(b"refused")
        raise error

    def _wrong(self, rank: int, what: str) -> PartyLostError:
        return PartyLostError(rank, f"({self._owners.names[rank]}) sent {what}")

    def _hash(self, tag: bytes) -> None:
        """Keeps the points of this owner's ids, and of those that pad its list."""
        total = self._sizes[self._rank]
        made_up = os.urandom((total - len(self._ids.digests)) * POINT)
        blocks = _blocks(self._ids.digests.tobytes() + made_up)
        self._make(_OWN, total, blocks, partial(hashed, tag=tag), "hashes its ids")

    def _pass(self, number: int, step: int, key: bytes) -> None:
        """Takes a list, multiplies it by a key, shuffles it and hands it on.

        Its number is its owner's rank, or the number of owners for the common list; its step is
        how many have done so before.
        """
        common, before = number == self._number, (self._rank - 1) % self._number
        whose = "the common list" if common else f"{self._owners.names[number]}'s list"
        blocks: _Source = partial(self._received, before, number, step)
        if not step:
            blocks = _blocks(self._common) if common else partial(self._store.blocks, _OWN)
        name, task = _name(number, step), partial(times_key, key=key)
        try:
            self._make(name, self._sizes[number], blocks, task, f"multiplies {whose}")
        except MessageError as error:
            raise self._wrong(before if step else self._rank, str(error)) from None
        after = [(self._rank + 1) % self._number]
        if step == self._number - 1:
            after = [*range(self._number)] if common else [COMPARER]
        for rank in after:
            if rank != self._rank:
                at = self._announced[rank].counts.get(_name(number, step + 1), 0)
                for block in self._store.blocks(name, at):
                    self._owners.send(rank, _HEAD.pack(number, step + 1, at) + block)
                    at += len(block) // POINT

    def _make(self, name: str, total: int, blocks: _Source, task: Task | None, what: str) -> None:
        """Keeps a list of so many points: what a task makes of blocks, or the blocks themselves.

        What has another key is shuffled.
        """
        if self._store.is_complete(name):
            return
        at = self._store.counts().get(name, 0)
        for block in blocks(at) if task is None else self._workers.each(task, blocks(at)):
            self._store.append(name, at, block)
            at += len(block) // POINT
            self._owners.doing(what, at, total)
        points = self._store.begun(name)
        self._store.complete(name, points if task is None or name == _OWN else shuffled(points))

    def _received(self, source: int, number: int, step: int, at: int) -> Iterator[bytes]:
        total = self._sizes[number]
        for first in range(at, total, BLOCK):
            message, head = self._owners.receive(source), _HEAD.pack(number, step, first)
            size = len(head) + min(BLOCK, total - first) * POINT
            if len(message) != size or not message.startswith(head):
                raise self._wrong(source, "a message out of turn")
            yield message[len(head) :]

    def _last(self, number: int) -> Points:
        """Returns a list that has gone round."""
        step = self._number - 1
        holder = step if number == self._number else (number + step) % self._number
        if holder != self._rank:
            step, whose = self._number, f"takes the last of {self._owners.names[holder]}"
            blocks = partial(self._received, holder, number, step)
            self._make(_name(number, step), self._sizes[number], blocks, None, whose)
        return self._store.whole(_name(number, step))

    def _count(self) -> int:
        """Returns how many ids all lists have, which the comparer tells the others."""
        if self._rank == COMPARER:
            lists = map(self._last, range(self._number))
            both = partial(np.intersect1d, assume_unique=True)  # which needs no copies of lists
            self._common = functools.reduce(both, lists).tobytes()
            count = len(self._common) // POINT
            for rank in range(1, self._number):
                self._owners.send(rank, str(count).encode())
        else:
            said = self._owners.receive(COMPARER)
            if not said.isdigit() or len(said) > 10 or int(said) > min(self._sizes):
                raise self._wrong(COMPARER, "no number of common ids")
            count = int(said)
        self._sizes.append(count)
        return count

    def _found(self, count: int) -> tuple[npt.NDArray[np.intp], str]:
        """Returns which records are of common ids, by their points, and the order's digest."""
        points = np.unique(self._last(self._number))
        own = self._store.whole(_OWN)[: len(self._ids.digests)]
        _, rows, _ = np.intersect1d(own, points, assume_unique=True, return_indices=True)
        if not rows.size == points.size == count:
            raise PeaError("Points came back that belong to no id: one owner has changed them.")
        return rows, hashlib.sha256(points.tobytes()).hexdigest()


def shuffled(points: bytes) -> bytes:
    """Returns points in an order that the operating system's generator draws."""
    keys = np.frombuffer(os.urandom(len(points) // POINT * _DRAW), f"S{_DRAW}")
    return np.frombuffer(points, DTYPE)[np.argsort(keys)].tobytes()


def _objection(names: Sequence[str], lists: Sequence[_Announced]) -> ArgumentError | None:
    """Returns why these lists cannot be aligned, the same at all owners."""
    strict = min(range(len(lists)), key=lambda rank: lists[rank].terms.most_ids)
    large = max(range(len(lists)), key=lambda rank: lists[rank].ids)
    if lists[large].ids > (most := lists[strict].terms.most_ids):
        rule = f"at least {lists[large].ids}, the number of ids of {names[large]}"
        hint = f"{names[strict]} accepts only lists up to its limit."
        return ArgumentError("most_ids", most, rule, hint, code="range")
    if not all(one.outline.may_meet(other.outline) for one in lists for other in lists):
        rule, hint = "alike at all owners", "Nobody could be in all lists. No id was sent."
        return ArgumentError("id_format", _outlines(names, lists), rule, hint, code="data")
    return None


def _outlines(names: Sequence[str], lists: Sequence[_Announced]) -> str:
    each = zip(names, lists, strict=True)
    return "; ".join(f"{name}: {one.outline}" for name, one in each)


def _blocks(points: bytes) -> _Source:
    """Returns what yields blocks of points from one of them on."""
    size = BLOCK * POINT
    return lambda at: (points[n : n + size] for n in range(at * POINT, len(points), size))


def _name(number: int, step: int) -> str:
    return f"list-{number}-{step}"
