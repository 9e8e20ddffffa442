"""What the parties of one program do together with those of all others, or none of them does."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy.typing as npt

from extensions.errors import PeaError
from extensions.privacy.randomness import InsecureSeededSource
from extensions.protocols.agreement import (
    Exchange,
    Statement,
    Subject,
    Words,
    agree,
    exchange_bytes,
)
from extensions.ring.fixed_point import Integers
from extensions.runs.checkpoints.agreement import Offer
from extensions.runs.checkpoints.files import Checkpoint
from extensions.runs.checkpoints.marks import claim_opening
from extensions.runs.checkpoints.party import PartyCheckpoints

STORED = Subject("checkpoint", "written at every party", "It was not opened.")
WRITTEN = Subject("checkpoint", "written at every party", "{resume=True} opens the same result.")
Named = Mapping[str, Integers]
"""A party's shares or summands by name."""
T = TypeVar("T")


def run_concurrently(
    call: Callable[..., T], first: Sequence[Any], *further: Sequence[Any]
) -> list[T]:
    """Returns what a call gives for each row of these columns; all are made at the same time.

    The first failure is raised once all have ended.
    """
    rows = [*zip(first, *further, strict=True)]
    if len(rows) == 1:
        return [call(*rows[0])]
    with ThreadPoolExecutor(len(rows)) as pool:
        waiting = [pool.submit(call, *row) for row in rows]
    return [each.result() for each in waiting]


def local_exchange(own: Sequence[Words]) -> Sequence[Words]:
    """Returns what all parties say, where this program has all of them."""
    return own


class AllCheckpoints:
    """The checkpoints of all parties of this program, which no other program is ahead of.

    `exchange` is how they hear of the others, and `source` returns what noise is drawn from: a
    seeded one goes on from where it stood. `outputs` has each party's words of the release that is
    stored. Two rounds to settle, and one each to open, store and complete.
    """

    def __init__(
        self,
        parties: Sequence[PartyCheckpoints],
        exchange: Exchange = local_exchange,
        source: Callable[[], Any] = lambda: None,
    ) -> None:
        self.parties, self._exchange, self._source = parties, exchange, source
        self.outputs: Sequence[Named] = []

    @property
    def kept(self) -> bool:
        """Whether there is something from which the run can go on."""
        return any(party.kept for party in self.parties)

    @property
    def resumed(self) -> tuple[int, ...]:
        """The steps from which the run was continued, in order."""
        return self.parties[0].resumed

    def settle(self) -> list[Checkpoint]:
        """Returns what each party resumes from; nothing for a new run.

        See `PartyCheckpoints.settle`: what is wrong at a party comes first.
        """
        own = [party.offer().to_bytes() for party in self.parties]
        offers = [Offer.from_bytes(each) for each in exchange_bytes(self._exchange, own)]
        run_concurrently(lambda party: party.check(), self.parties)
        found = run_concurrently(lambda party: party.settle(offers), self.parties)
        bases = [base for base in found if base is not None]
        self.outputs = [base.outputs for base in bases if base.recipients]
        for base in bases[:1]:
            self.draw_from(base)
        return bases

    def draw_from(self, stored: Checkpoint) -> None:
        """A seeded source goes on from where it stood when this was stored."""
        source = self._source()
        if isinstance(source, InsecureSeededSource):
            source.load_state_dict(stored.source or {})

    def _stands(self) -> Mapping[str, Any] | None:
        source = self._source()
        return source.state_dict() if isinstance(source, InsecureSeededSource) else None

    def write(
        self, step: int, shares: Callable[[], Sequence[Named]], optimizer: Callable[[], Any]
    ) -> None:
        """Writes each party's shares after so many steps, if a checkpoint is due."""
        if self.parties[0].is_due(step):
            beside: dict[str, Any] = {"optimizer": optimizer(), "source": self._stands()}

            def write(party: PartyCheckpoints, own: Named) -> None:
                party.write(step, own, **beside)

            run_concurrently(write, self.parties, shares())

    def open(self, name: str, words: Sequence[Sequence[Integers]]) -> None:
        """Stores all parties' words of a release on the way; they open no others.

        Raises PeaError if a party could not, in every party; or another continuation has opened its
        own.
        """
        with self._agreed(STORED):
            stored = [
                party.store_opening(name, own, self._stands())
                for party, own in zip(self.parties, words, strict=True)
            ]
        for own in stored:
            claim_opening(own)

    def store(
        self, shares: Sequence[Named], outputs: Sequence[Named], optimizer: Mapping[str, Any]
    ) -> None:
        """Stores all parties' words of one and the same release.

        Raises PeaError if a party could not; in every party, and nothing is opened.
        """
        beside: dict[str, Any] = {"optimizer": optimizer, "source": self._stands()}

        def store(party: PartyCheckpoints, *own: Named) -> str:
            return party.store(*own, **beside)

        with self._agreed(STORED) as facts:
            (facts["release"],) = {*run_concurrently(store, self.parties, shares, outputs)}
        self.outputs = outputs

    def complete(self, report: str, opened: Mapping[str, npt.ArrayLike]) -> None:
        """Writes the result at all parties; then none has its words of the release any more.

        Raises PeaError if a party could not write it; in every party, and all keep their words.
        """
        with self._agreed(WRITTEN):
            run_concurrently(lambda party: party.write_result(report, opened), self.parties)
        run_concurrently(lambda party: party.complete(), self.parties)

    @contextmanager
    def _agreed(self, subject: Subject) -> Iterator[dict[str, Any]]:
        """Returns once all parties have done what the block does, or fails in all of them.

        What the block puts into the dictionary must be equal at all parties.
        """
        facts: dict[str, Any] = {}
        problem = None
        try:
            yield facts
        except PeaError as error:
            problem = error
        agree(self._exchange, [()] * len(self.parties), Statement(run=facts), problem, subject)
