"""Which checkpoint all parties resume from, decided alike by each from what all of them offer."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from extensions.errors import ArgumentError
from extensions.protocols.agreement import Statement, Subject, check_equal

CHECKPOINT = Subject("checkpoint", "accepted by every party", "Nothing was shared.")


@dataclass(frozen=True, kw_only=True)
class Offer:
    """What a party tells the others; public.

    Attributes:
        problem: whether it must refuse, for a reason that it tells its own user.
        resume: whether it was asked to resume.
        settings: that must be equal at all parties.
        nonce: its part of the names of run and attempt, random.
        run: of the checkpoints that it has; empty without any.
        held: their (attempt, step).
        openings: releases on the way of which it has its words, by (name, attempt).
        stored: the release of which it has its words; empty without one.
        marked: the release that it has marked; empty without one.
        charged: whether it has what the run had spent when something was last opened.
        done: whether it has the result, and knows that all parties have it.
    """

    problem: bool
    resume: bool
    settings: Mapping[str, Any]
    nonce: str
    run: str
    held: Sequence[tuple[str, int]]
    openings: Sequence[tuple[str, str]] = ()
    stored: str = ""
    marked: str = ""
    charged: bool = False
    done: bool = False

    def to_bytes(self) -> bytes:
        """Returns the offer as JSON."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, message: bytes) -> "Offer":
        """Returns the offer that `to_bytes` wrote."""
        fields = json.loads(message)
        pairs = {name: [(a, b) for a, b in fields[name]] for name in ("held", "openings")}
        return cls(**fields | pairs)


@dataclass(frozen=True, kw_only=True)
class Agreed:
    """What all parties do.

    Attributes:
        run: name of the run.
        attempt: name of what begins now; never that of an earlier start or continuation.
        base: (attempt, step) of the checkpoint to resume from; None from the start.
        openings: releases on the way of which all parties have their words, by (name, attempt).
        release: what all parties open, since one of them has marked it; empty without one.
        done: whether all parties have the result already.
    """

    run: str
    attempt: str
    base: tuple[str, int] | None = None
    openings: frozenset[tuple[str, str]] = frozenset()
    release: str = ""
    done: bool = False


def settle(offers: Sequence[Offer]) -> Agreed:
    """Returns what the parties do, the same for all that have the same offers, by rank.

    Raises ArgumentError if a party refuses; some resume and others do not; settings differ;
    checkpoints are of different runs or have no step in common; or a party has marked a release of
    which another has no words.
    """
    CHECKPOINT.check([offer.problem for offer in offers])
    first = offers[0]
    given = [rank for rank, offer in enumerate(offers) if offer.resume]
    if len(given) not in (0, len(offers)):
        raise ArgumentError("resume", f"given at parties {given} only", "given at all or at none")
    check_equal({rank: Statement(run=offer.settings) for rank, offer in enumerate(offers)})
    for rank, offer in enumerate(offers):
        if offer.run != first.run:
            raise ArgumentError(
                "checkpoint",
                f"of one run at party 0, of another at party {rank}",
                "from the same run at every party",
            )
    name = hashlib.sha256("".join(offer.nonce for offer in offers).encode()).hexdigest()
    if not first.resume:
        return Agreed(run=name, attempt=name)
    if any(offer.done for offer in offers):
        return Agreed(run=first.run, attempt=name, done=True)
    openings = frozenset.intersection(*(frozenset(offer.openings) for offer in offers))
    if marked := {offer.marked for offer in offers} - {""}:
        release, *others = marked
        lacking = [rank for rank, offer in enumerate(offers) if offer.stored != release]
        if others or lacking:
            raise ArgumentError(
                "checkpoint",
                f"without the release of this run at parties {lacking}",
                "from the continuation that was finished first, at every party",
                "Only that result may be opened: resume in the folders in which it was finished.",
            )
        return Agreed(run=first.run, attempt=name, release=release, openings=openings)
    common = set.intersection(*({*offer.held} for offer in offers))
    if not common and (openings or all(offer.charged for offer in offers)):
        return Agreed(run=first.run, attempt=name, openings=openings)
    if not common:
        raise ArgumentError(
            "checkpoint",
            [sorted(step for _, step in offer.held) for offer in offers],
            "such that all parties have a checkpoint of one step",
            "Only steps without an interruption between them count. Nothing of this run was "
            "released: start again without {resume}, in a new folder.",
        )
    base = max(common, key=lambda each: each[1])
    return Agreed(run=first.run, attempt=name, base=base, openings=openings)
