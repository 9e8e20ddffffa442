"""Whole runs whose parties are threads of one process, each of which can die at any boundary.

A boundary lies before every operation on the disk and before and after every message. A party that
died does nothing more, not even what a `finally` asks for; the others hear of it when they need it.
The parties compute in the clear, alike, and share what they keep and open.
"""

import fcntl
import functools
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from extensions.data.datasets import Split
from extensions.errors import LostError
from extensions.privacy import ledger
from extensions.privacy.composition import total_epsilon
from extensions.privacy.mechanisms import SubsampledGaussian
from extensions.privacy.randomness import InsecureSeededSource
from extensions.protocols.host import Compute, Traffic, flat, pairs
from extensions.ring.fixed_point import Integers
from extensions.runs.checkpoints import CheckpointOptions
from extensions.runs.clear_host import ClearHost
from extensions.runs.config import TrainConfig
from extensions.runs.options import RunOptions
from extensions.runs.training import run
from tests.helpers.patience import PATIENCE

ON_DISK = {os: ("fsync", "replace", "unlink", "mkdir", "open"), fcntl: ("flock",)}


class KilledError(BaseException):
    """The end of a party, which nothing may catch."""


@dataclass
class Life:
    """How far a party has come.

    Attributes:
        ends: the boundary at which it dies, or None.
        passed: boundaries that it has passed.
        dead: whether it died.
        segments: boundaries passed before each of its messages.
    """

    ends: int | None = None
    passed: int = 0
    dead: bool = False
    segments: list[int] = field(default_factory=list)

    def boundary(self) -> None:
        if self.dead or self.passed == self.ends:
            self.dead = True
            raise KilledError
        self.passed += 1


here = threading.local()


@contextmanager
def boundaries_on_disk() -> Iterator[None]:
    """Every operation on the disk of a thread that has a `here.life` begins with a boundary."""
    with pytest.MonkeyPatch.context() as patch:
        for module, names in ON_DISK.items():
            for name in names:
                patch.setattr(module, name, _guarded(name, getattr(module, name)))
        yield


@contextmanager
def epsilons_computed_once() -> Iterator[None]:
    """What a ledger comes to is looked up when it is asked for again."""

    @functools.cache
    def remembered(mechanisms: tuple[SubsampledGaussian, ...], **asked: Any) -> float:
        return total_epsilon(mechanisms, **asked)

    def total(mechanisms: Sequence[SubsampledGaussian], **asked: Any) -> float:
        return remembered(tuple(mechanisms), **asked)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ledger, "total_epsilon", total)
        yield


def _guarded(name: str, operation: Callable[..., Any]) -> Callable[..., Any]:
    def guarded(*arguments: Any, **options: Any) -> Any:
        if (life := getattr(here, "life", None)) is None:
            return operation(*arguments, **options)
        life.boundary()
        return None if name == "fsync" else operation(*arguments, **options)

    return guarded


class Room:
    """Where parties hear of each other."""

    def __init__(self, parties: int) -> None:
        self._parties = parties
        self._changed = threading.Condition()
        self._said: list[dict[int, Any]] = []
        self._gone: set[int] = set()

    def gather(self, rank: int, number: int, own: Any) -> list[Any]:
        """Returns what all parties say in their message of that number, by rank.

        Raises:
            LostError: one of them died before.
        """
        with self._changed:
            while len(self._said) <= number:
                self._said.append({})
            said = self._said[number]
            said[rank] = own
            self._changed.notify_all()
            told = self._changed.wait_for(
                lambda: len(said) == self._parties or self._gone - said.keys(), PATIENCE
            )
            assert told, "a party hangs"
            if len(said) < self._parties:
                raise LostError(f"party {min(self._gone - said.keys())} is gone")
            return [said[each] for each in range(self._parties)]

    def leave(self, rank: int) -> None:
        with self._changed:
            self._gone.add(rank)
            self._changed.notify_all()


class Fresh:
    """Draws that no resumed run restores: fresh in every attempt, alike at all parties."""

    def __init__(self, seed: int) -> None:
        self._source = InsecureSeededSource(seed)
        self.gaussian = self._source.gaussian
        self.bernoulli = self._source.bernoulli


class RoomHost(ClearHost):
    """One party.

    Args:
        room: where it hears of the others.
        rank: of the party.
        seed: of all that is drawn in this attempt, alike at all parties.
        config: of the run.
    """

    def __init__(self, room: Room, rank: int, seed: int, config: TrainConfig) -> None:
        super().__init__(
            config.frac_bits,
            parties=config.parties,
            owners=config.parties,
            source=Fresh(seed),
            coins=np.random.default_rng(seed),
        )
        self.ranks = self.holders = (rank,)
        self._room, self._rank, self._parties = room, rank, config.parties
        self._masks = np.random.default_rng(seed + 1)
        self._messages = 0
        self.sent: list[bytes] = []

    def _gather(self, own: Any) -> list[Any]:
        here.life.segments.append(here.life.passed)
        here.life.boundary()
        said = self._room.gather(self._rank, self._messages, own)
        self._messages += 1
        here.life.boundary()
        return said

    def exchange(self, own: Sequence[Any]) -> list[Any]:
        return [row for rows in self._gather(own) for row in rows]

    def share_rows(self, rows: Sequence[int], own: Any) -> list[Integers]:
        everybody = [part for parts in self._gather(own) for part in parts]
        return [np.concatenate(column) for column in zip(*everybody, strict=True)]

    def summands(self, model: Any, compute: Compute = flat) -> list[list[Integers]]:
        shared = []
        for value in compute(model):
            masks = self._masks.integers(0, 2**64, (self._parties - 1, *value.shape), np.uint64)
            parts = [*masks.view(np.int64)]
            shared.append([*parts, value - sum(parts)][self._rank])
        return [shared]

    def restore(self, summands: Sequence[Sequence[Integers]]) -> Any:
        return pairs(self._sum(summands))

    def open(self, summands: Sequence[Sequence[Integers]]) -> list[Integers]:
        (own,) = summands
        here.life.boundary()
        self.sent.append(b"".join(part.tobytes() for part in own))
        return self._sum(summands)

    def _sum(self, summands: Sequence[Sequence[Integers]]) -> list[Integers]:
        everybody = [own for (own,) in self._gather(summands)]
        return [np.sum(column, axis=0) for column in zip(*everybody, strict=True)]

    def traffic(self) -> Traffic:
        return Traffic()


@dataclass(frozen=True)
class Attempt:
    """What became of one start of all parties.

    Attributes:
        lives: how far each came.
        reports: of those who came to the end, by rank.
        errors: of the others.
        sent: by rank, the words that each gave in order to open something.
    """

    lives: list[Life]
    reports: dict[int, dict[str, Any]]
    errors: dict[int, BaseException]
    sent: list[list[bytes]]


def attempt(
    config: TrainConfig,
    parts: Sequence[Split],
    options: Callable[[int], RunOptions],
    seed: int,
    ends: Mapping[int, int] | None = None,
) -> Attempt:
    """Returns what becomes of a run, of which some parties die at a boundary.

    Args:
        config: of the run.
        parts: each party's records.
        options: of each party.
        seed: of what is drawn.
        ends: boundaries by rank.
    """
    room = Room(config.parties)
    lives = [Life((ends or {}).get(rank)) for rank in range(config.parties)]
    hosts = [RoomHost(room, rank, seed, config) for rank in range(config.parties)]
    done = Attempt(lives, {}, {}, [host.sent for host in hosts])

    def one(rank: int) -> None:
        here.life = lives[rank]
        try:
            done.reports[rank] = run(
                hosts[rank], config, [parts[rank]], lambda event: None, options(rank)
            )
        except BaseException as error:
            done.errors[rank] = error
        finally:
            room.leave(rank)

    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(config.parties)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return done


def kept_in(folder: Path, *, resume: bool) -> Callable[[int], RunOptions]:
    """Returns the options of parties that keep a checkpoint after every step in their folders."""

    def options(rank: int) -> RunOptions:
        own = CheckpointOptions(folder=folder / str(rank), every=1, resume=resume)
        return RunOptions(checkpoints=own)

    return options
