"""What the parties of one program do together with those of all others, or none of them does."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy.typing as npt

from extensions.errors import PeaError
from extensions.protocols.agreement import Exchange, Subject, agree, exchange_bytes
from extensions.ring.fixed_point import Integers
from extensions.runs.checkpoints.agreement import Offer
from extensions.runs.checkpoints.files import Checkpoint
from extensions.runs.checkpoints.party import PartyCheckpoints

STORED = Subject("checkpoint", "written at every party", "It was not opened.")
WRITTEN = Subject("checkpoint", "written at every party", "--resume opens the same result.")


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
    for party in parties:
        party.check()
    return [party.settle(offers) for party in parties]


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
    with _together(parties, exchange, STORED) as facts:
        for party, (shares, outputs) in zip(parties, words, strict=True):
            facts["release"] = party.store(shares, outputs, optimizer=optimizer, source=source)


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
        for party in parties:
            party.write_result(report, opened)
    for party in parties:
        party.complete()


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
