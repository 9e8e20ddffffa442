"""What the parties of one program do together with those of all others, or none of them does."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy.typing as npt

from extensions.errors import PeaError
from extensions.protocols.agreement import Exchange, Subject, agree, exchange_bytes
from extensions.ring.fixed_point import Integers
from extensions.runs.checkpoints.agreement import Offer
from extensions.runs.checkpoints.files import Checkpoint
from extensions.runs.checkpoints.party import PartyCheckpoints

STORED = Subject("checkpoint", "written at every party", "It was not opened.")
WRITTEN = Subject("checkpoint", "written at every party", "{resume=True} opens the same result.")
T = TypeVar("T")


def at_once(call: Callable[..., T], first: Sequence[Any], *further: Sequence[Any]) -> list[T]:
    """Returns what a call gives for each row of these columns; all are made at the same time.

    Raises:
        Exception: of the first that fails, once all have ended.
    """
    rows = [*zip(first, *further, strict=True)]
    if len(rows) == 1:
        return [call(*rows[0])]
    with ThreadPoolExecutor(len(rows)) as pool:
        waiting = [pool.submit(call, *row) for row in rows]
    return [each.result() for each in waiting]


def settle_together(
    parties: Sequence[PartyCheckpoints], exchange: Exchange | None = None
) -> list[Checkpoint | None]:
    """Returns what each party of this process resumes from.

    Args:
        parties: of this process.
        exchange: how they hear of the others; None if there are no others.

    Raises:
        ArgumentError: of `PartyCheckpoints.settle`; what is wrong at a party comes first.
    """
    offers = [party.offer() for party in parties]
    if exchange is not None:
        own = [offer.to_bytes() for offer in offers]
        offers = [Offer.from_bytes(each) for each in exchange_bytes(exchange, own)]
    at_once(lambda party: party.check(), parties)
    return at_once(lambda party: party.settle(offers), parties)


def store_together(
    parties: Sequence[PartyCheckpoints],
    exchange: Exchange,
    words: Sequence[tuple[Mapping[str, Integers], Mapping[str, Integers]]],
    *,
    optimizer: Mapping[str, Any],
    source: Mapping[str, Any] | None,
) -> None:
    """All parties have stored their words of one and the same release.

    Args:
        parties: of this process.
        exchange: how they hear of the others.
        words: of each of them its shares of the model, and its summands of what will be opened.
        optimizer: as for `PartyCheckpoints.write`.
        source: likewise.

    Cost:
        One round.

    Raises:
        PeaError: a party could not; in every party, and nothing is opened.
    """

    def store(party: PartyCheckpoints, own: tuple[Mapping[str, Integers], ...]) -> str:
        return party.store(*own, optimizer=optimizer, source=source)

    with _together(parties, exchange, STORED) as facts:
        (facts["release"],) = {*at_once(store, parties, words)}


def open_together(
    parties: Sequence[PartyCheckpoints],
    exchange: Exchange,
    name: str,
    words: Sequence[Sequence[Integers]],
    source: Mapping[str, Any] | None,
) -> None:
    """All parties have stored their words of a release on the way, and open no others.

    Args:
        parties: of this process.
        exchange: how they hear of the others.
        name: of the release.
        words: of each of them.
        source: as for `PartyCheckpoints.write`.

    Cost:
        One round.

    Raises:
        PeaError: a party could not, in every party; or another continuation has opened its own.
    """
    with _together(parties, exchange, STORED):
        stored = [
            party.store_opening(name, own, source)
            for party, own in zip(parties, words, strict=True)
        ]
    for party, own in zip(parties, stored, strict=True):
        party.claim(own)


def complete_together(
    parties: Sequence[PartyCheckpoints],
    exchange: Exchange,
    report: str,
    opened: Mapping[str, npt.ArrayLike],
) -> None:
    """All parties have the result on disk, and none has its words of the release any more.

    Args:
        parties: of this process.
        exchange: how they hear of the others.
        report: as JSON.
        opened: what was opened.

    Cost:
        One round.

    Raises:
        PeaError: a party could not write it; in every party, and all keep their words.
    """
    with _together(parties, exchange, WRITTEN):
        at_once(lambda party: party.write_result(report, opened), parties)
    at_once(lambda party: party.complete(), parties)


@contextmanager
def _together(
    parties: Sequence[PartyCheckpoints], exchange: Exchange, subject: Subject
) -> Iterator[dict[str, Any]]:
    """Returns once all parties have done what the block does, or fails in all of them.

    What the block puts into the dictionary must be equal at all parties.
    """
    facts: dict[str, Any] = {}
    problem = None
    try:
        yield facts
    except PeaError as error:
        problem = error
    agree(exchange, [()] * len(parties), facts, problem, subject)
