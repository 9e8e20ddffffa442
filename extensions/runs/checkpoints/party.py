"""One party's checkpoints of one run, from the first look into its folder to the result."""

import json
import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy.typing as npt

from extensions import durable
from extensions.data.datasets import write_private
from extensions.errors import ArgumentError, PeaError
from extensions.ring.fixed_point import Integers
from extensions.runs.checkpoints import marks
from extensions.runs.checkpoints.agreement import Agreed, Offer, settle
from extensions.runs.checkpoints.files import (
    CHARGES,
    OPENED,
    OPENING,
    RELEASE,
    RESULT,
    STEP,
    Checkpoint,
    Files,
    unusable,
    write,
)
from extensions.runs.checkpoints.folder import Held, look, make_new
from extensions.runs.checkpoints.options import CheckpointOptions

KEPT = 2
_PARTS = 10


class PartyCheckpoints:
    """One party's checkpoints: `offer`, `settle`, `write` after due steps, then its release.

    The release is `store`, `mark` once all parties have stored it, `write_result` when it is
    opened, and `complete` once all have the result (`extensions.runs.checkpoints.files`).

    Args:
        options: what the user asks for.
        rank: of the party.
        steps: of the whole run.
        settings: public, equal at all parties.
        own: further public settings and sizes of this party, which may differ from the others'.

    Attributes:
        resumed: the steps from which the run was continued, in order.
        spent: what of the optimizer's state `charge` wrote later than the checkpoint resumed from.

    Guarantees:
        A party writes checkpoint j + 1 only once all parties have taken part in the step before it,
        and so have written j: the last two of each always have one in common.
    """

    def __init__(
        self,
        options: CheckpointOptions,
        rank: int,
        *,
        steps: int,
        settings: Mapping[str, Any],
        own: Mapping[str, Any],
    ) -> None:
        self._files = Files(options.folder, rank)
        self._resume = options.resume
        self._steps = steps
        self._every = options.every or math.ceil(steps / _PARTS)
        self._common = _plain({**settings, "steps": steps})
        self._settings = _plain(own) | self._common
        self._problem: ArgumentError | None = None
        self._held: Held | None = None
        self._entry = secrets.token_hex(5)
        self._agreed: Agreed | None = None
        self._recipients: tuple[int, ...] = ()
        self.resumed: tuple[int, ...] = ()
        self.spent: Mapping[str, Any] = {}
        self._kept: list[Path] = []

    @property
    def entry(self) -> str:
        """Name of the run in the ledger of the party's data set; empty if it cannot go on."""
        held = self._look()
        return "" if self._problem or held.done else held.entry or self._entry

    def offer(self) -> Offer:
        """Returns what to tell all parties; what is wrong here is raised by `settle`."""
        held = self._look()
        return Offer(
            problem=self._problem is not None,
            resume=self._resume,
            settings=self._common | {"checkpoint_every": self._every},
            nonce=secrets.token_hex(16),
            run=held.run,
            held=[each.identity for each in held.checkpoints],
            openings=[(each.opening, each.attempt) for each in held.openings],
            stored=held.release.release if held.release else "",
            marked=held.marked or "",
            charged=held.charged is not None,
            done=held.done,
        )

    def _look(self) -> Held:
        """What the party has; what is wrong with it is found once."""
        if self._held is None:
            self._held = Held()
            try:
                if self._resume:
                    self._held = look(self._files, self._settings)
                else:
                    make_new(self._files)
            except ArgumentError as error:
                self._problem = error
        return self._held

    def check(self) -> None:
        """Raises the ArgumentError that `offer` met with, if any."""
        if self._problem is not None:
            raise self._problem

    def settle(self, offers: Sequence[Offer]) -> Checkpoint | None:
        """Returns the checkpoint to resume from, the same at every party; None for a new run.

        It has `outputs` if it is a release that a party has marked: then these are opened, and no
        others. Nothing is written; of a run whose result all parties have, the shares are removed.
        Raises ArgumentError if this party's files cannot be used, the parties do not agree, or all
        have the result; in every party, and before anything is shared.
        """
        self.check()
        held = self._look()
        self._agreed = agreed = settle(offers)
        self._recipients = tuple(range(len(offers)))
        if agreed.done:
            if held.result is not None:
                self.complete()
            raise held.finished()
        base = None
        if agreed.release:
            base = held.release
            assert base is not None
        elif agreed.base is not None:
            (base,) = (each for each in held.checkpoints if each.identity == agreed.base)
            self._kept = [self._files.path(STEP, base.step)]
        charged = held.charged
        if charged is not None and (base is None or charged.charges > base.charges):
            self.spent = charged.optimizer
        begun = next((each for each in (base, charged, *held.openings) if each), None)
        if begun is not None:
            self.resumed = (*begun.resumed, begun.step)
        return base

    def charge(self, spent: Mapping[str, Any]) -> None:
        """Writes what the run has spent; to be called before more of it is opened on the way.

        Whoever resumes the run, from whichever checkpoint, goes on from what was spent last: steps
        that are lost count if they were made before something was opened. `spent` is of the
        optimizer's state, with what is opened next. Raises PeaError if another continuation of the
        run was charged, or finished, in the meantime.
        """
        assert self._agreed is not None
        number = self._charges + 1
        marks.check_unmarked(self._files, self._agreed.run, self.released[1])
        name = marks.charge_name(number)
        stored = self._write(CHARGES, optimizer=spent, opening=name, charges=number)
        self._held = replace(self._look(), charged=stored)
        marks.claim_opening(stored)

    @property
    def _charges(self) -> int:
        charged = self._look().charged
        return 0 if charged is None else charged.charges

    def opening(self, name: str) -> Checkpoint | None:
        """Returns this party's words of a release on the way; None unless all parties have them."""
        assert self._agreed is not None
        for found in self._look().openings:
            if found.opening == name and (name, found.attempt) in self._agreed.openings:
                return found
        return None

    def store_opening(
        self, name: str, words: Sequence[Integers], source: Mapping[str, Any] | None
    ) -> Checkpoint:
        """Returns this party's words of a release on the way, which are on disk."""
        outputs = {str(place): word for place, word in enumerate(words)}
        stored = self._write(OPENING, name, source=source, opening=name, outputs=outputs)
        held = self._look()
        self._held = replace(held, openings=(*held.openings, stored))
        return stored

    @property
    def kept(self) -> bool:
        """Whether the folder has something from which the run can go on."""
        held = self._look()
        return any((self._kept, held.release, held.openings, held.charged))

    def is_due(self, step: int) -> bool:
        """Whether a checkpoint is wanted after so many steps: the first, the last, every N-th."""
        return step % self._every == 0 or step == self._steps

    def write(
        self,
        step: int,
        shares: Mapping[str, Integers],
        *,
        optimizer: Mapping[str, Any],
        source: Mapping[str, Any] | None,
    ) -> None:
        """Writes this party's shares after so many steps; all but the last two are removed."""
        self._write(STEP, step, step=step, shares=shares, optimizer=optimizer, source=source)
        self._kept = [*self._kept, self._files.path(STEP, step)][-KEPT:]
        self._files.remove(STEP, kept=self._kept)

    def store(
        self,
        shares: Mapping[str, Integers],
        outputs: Mapping[str, Integers],
        *,
        optimizer: Mapping[str, Any],
        source: Mapping[str, Any] | None,
    ) -> str:
        """Returns the name of the release, of which this party's words are on disk.

        These are shares of the model, and this party's summands of all that will be opened. Raises
        PeaError if another release of the run is marked, or another continuation has opened more.
        """
        assert self._agreed is not None
        held, run = self._look(), self._agreed.run
        marks.check_unmarked(self._files, run)
        if not marks.is_charged(self._files, run, held.charged):
            raise PeaError(
                "In the meantime another continuation of this run has opened something that this "
                "one has not counted. Go on with the other one."
            )
        beside = {"optimizer": optimizer, "source": source, "recipients": self._recipients}
        last = self._write(RELEASE, step=self._steps, shares=shares, outputs=outputs, **beside)
        self._held = replace(held, release=last)
        return last.release

    def mark(self) -> None:
        """Makes the stored release the only one that this party opens; its checkpoints are removed.

        To be called once all parties have stored it, and before anything is opened. No opening is
        complete without every party's words, which a party gives after its own mark. A program that
        has several parties marks one after another: of two of its copies the one that is first at
        the first party finishes the run. Raises PeaError if another release was marked in the
        meantime.
        """
        assert self._look().release is not None
        marks.mark(self._files, *self.released)
        self._files.remove(STEP)

    @property
    def released(self) -> tuple[str, str]:
        """Names of the run and of its stored release; empty without one."""
        stored = self._look().release
        return ("", "") if stored is None else (stored.run, stored.release)

    def write_result(self, report: str, opened: Mapping[str, npt.ArrayLike]) -> None:
        """Writes what came of the run, as JSON, and what was opened, beside the checkpoints."""
        try:
            if opened:
                write_private(self._files.path(OPENED), **opened)
            with durable.write(self._files.path(RESULT)) as file:
                file.write(report.encode())
        except OSError as error:
            advice = f"{error}. Then resume the run: it opens the same result."
            raise unusable(str(self._files.folder), "a folder to write", advice) from error

    def complete(self) -> None:
        """Removes this party's shares; to be called once all parties have the result."""
        self._files.remove(OPENING, RELEASE)

    def _write(self, kind: str, name: object = "", **fields: Any) -> Checkpoint:
        """Returns what is on disk from now on, as this attempt has it."""
        assert self._agreed is not None
        stored = Checkpoint(
            rank=self._files.rank,
            run=self._agreed.run,
            attempt=self._agreed.attempt,
            resumed=self.resumed,
            settings=self._settings,
            entry=self.entry,
            **{"charges": self._charges, **fields},
        )
        write(self._files.path(kind, name), stored)
        return stored


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings as JSON gives them back."""
    back: dict[str, Any] = json.loads(json.dumps(settings))
    return back
