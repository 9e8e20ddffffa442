"""One party's checkpoints of one run, from the first look into its folder to the result."""

import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy.typing as npt

from extensions.errors import ArgumentError
from extensions.ring.fixed_point import Integers
from extensions.runs.checkpoints import files, release
from extensions.runs.checkpoints.agreement import Agreed, Offer, settle
from extensions.runs.checkpoints.files import Checkpoint, unusable
from extensions.runs.checkpoints.folder import Held, look, make_new, plain
from extensions.runs.checkpoints.options import CheckpointOptions

KEPT = 2
_PARTS = 10


class PartyCheckpoints:
    """One party's checkpoints: `offer`, `settle`, `write` after due steps, then its release.

    The release is `store`, `mark` once all parties have stored it, `write_result` when it is
    opened, and `complete` once all have the result (`extensions.runs.checkpoints.release`).

    Args:
        options: what the user asks for.
        rank: of the party.
        steps: of the whole run.
        settings: public, equal at all parties.
        own: further public settings and sizes of this party, which may differ from the others'.

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
        self._options = options
        self._rank = rank
        self._steps = steps
        self._every = options.every or math.ceil(steps / _PARTS)
        self._common = plain({**settings, "steps": steps})
        self._settings = plain(own) | self._common
        self._problem: ArgumentError | None = None
        self._held = Held()
        self._looked = False
        self._entry = secrets.token_hex(5)
        self._agreed: Agreed | None = None
        self._recipients: tuple[int, ...] = ()
        self._resumed: tuple[int, ...] = ()
        self._spent: Mapping[str, Any] = {}
        self._kept: list[Path] = []

    @property
    def entry(self) -> str:
        """Name of the run in the ledger of the party's data set; empty if it cannot go on."""
        self._look()
        return "" if self._problem or self._held.done else self._held.entry or self._entry

    def offer(self) -> Offer:
        """Returns what to tell all parties; what is wrong here is raised by `settle`."""
        self._look()
        held = self._held
        return Offer(
            problem=self._problem is not None,
            resume=self._options.resume,
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

    def _look(self) -> None:
        if self._looked:
            return
        self._looked = True
        folder, rank = self._options.folder, self._rank
        try:
            if self._options.resume:
                self._held = look(folder, rank, self._settings)
            else:
                make_new(folder, rank)
        except ArgumentError as error:
            self._problem = error

    def check(self) -> None:
        """Raises the ArgumentError that `offer` met with, if any."""
        if self._problem is not None:
            raise self._problem

    def settle(self, offers: Sequence[Offer]) -> Checkpoint | None:
        """Returns the checkpoint to resume from, the same at every party; None for a new run.

        It has `outputs` if it is a release that a party has marked: then these are opened, and no
        others. Nothing is written; of a run whose result all parties have, the shares are removed.

        Args:
            offers: all parties', by rank.

        Raises:
            ArgumentError: this party's files cannot be used, the parties do not agree, or all have
                the result; in every party, and before anything is shared.
        """
        self.check()
        self._agreed = agreed = settle(offers)
        self._recipients = tuple(range(len(offers)))
        if agreed.done:
            if self._held.result is not None:
                self.complete()
            raise self._held.finished()
        if agreed.release:
            base = self._held.release
            assert base is not None
        elif agreed.base is not None:
            (base,) = (each for each in self._held.checkpoints if each.identity == agreed.base)
            self._kept = [files.path_of(self._options.folder, self._rank, base.step)]
        else:
            base = None
        charged = self._held.charged
        if charged is not None and (base is None or charged.charges > base.charges):
            self._spent = charged.optimizer
        begun = next((each for each in (base, charged, *self._held.openings) if each), None)
        if begun is not None:
            self._resumed = (*begun.resumed, begun.step)
        return base

    @property
    def spent(self) -> Mapping[str, Any]:
        """What of the optimizer's state `charge` wrote later than the checkpoint resumed from."""
        return self._spent

    def charge(self, spent: Mapping[str, Any]) -> None:
        """What the run has spent is on disk; to be called before more of it is opened on the way.

        Whoever resumes the run, from whichever checkpoint, goes on from what was spent last: steps
        that are lost count if they were made before something was opened.

        Args:
            spent: of the optimizer's state, what was spent so far and is by what is opened next.

        Raises:
            ArgumentError: it cannot be written.
            PeaError: another continuation of the run was charged, or finished, in the meantime.
        """
        assert self._agreed is not None
        folder, number = self._options.folder, self._charges + 1
        release.check_unmarked(folder, self._rank, self._agreed.run, self.released[1])
        stored = replace(
            self._checkpoint(0, {}, spent, None),
            opening=release.charge_name(number),
            charges=number,
        )
        _write(files.charges_path(folder, self._rank), stored)
        self._held = replace(self._held, charged=stored)
        self.claim(stored)

    @property
    def _charges(self) -> int:
        charged = self._held.charged
        return 0 if charged is None else charged.charges

    def opening(self, name: str) -> Checkpoint | None:
        """Returns this party's words of a release on the way; None unless all parties have them."""
        assert self._agreed is not None
        for found in self._held.openings:
            if found.opening == name and (name, found.attempt) in self._agreed.openings:
                return found
        return None

    def store_opening(
        self, name: str, words: Sequence[Integers], source: Mapping[str, Any] | None
    ) -> Checkpoint:
        """Returns this party's words of a release on the way, which are on disk.

        Args:
            name: of the release.
            words: this party's summands.
            source: as for `write`, after they were computed.

        Raises:
            ArgumentError: they cannot be written.
        """
        stored = replace(
            self._checkpoint(0, {}, {}, source),
            opening=name,
            outputs={str(place): word for place, word in enumerate(words)},
        )
        path = files.opening_path(self._options.folder, self._rank, name)
        _write(path, stored)
        self._held = replace(self._held, openings=(*self._held.openings, stored))
        return stored

    def claim(self, stored: Checkpoint) -> None:
        """These words are the only ones that the party gives for this release on the way.

        To be called once all parties have stored theirs, and before they are opened.

        Raises:
            PeaError: those of another continuation of the run were opened.
        """
        release.claim_opening(self._rank, stored)

    @property
    def kept(self) -> bool:
        """Whether the folder has something from which the run can go on."""
        held = self._held
        return any((self._kept, held.release, held.openings, held.charged))

    @property
    def resumed(self) -> tuple[int, ...]:
        """The steps from which the run was continued, in order."""
        return self._resumed

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
        """This party's shares after so many steps are on disk; all but the last two are removed."""
        folder = self._options.folder
        path = files.path_of(folder, self._rank, step)
        files.write(path, self._checkpoint(step, shares, optimizer, source))
        self._kept = [*self._kept, path][-KEPT:]
        files.remove(folder, self._rank, self._kept)

    def store(
        self,
        shares: Mapping[str, Integers],
        outputs: Mapping[str, Integers],
        *,
        optimizer: Mapping[str, Any],
        source: Mapping[str, Any] | None,
    ) -> str:
        """Returns the name of the release, of which this party's words are on disk.

        Args:
            shares: of the model.
            outputs: this party's summands of all that will be opened.
            optimizer: as for `write`.
            source: as for `write`.

        Raises:
            ArgumentError: they cannot be written.
            PeaError: another release of the run is marked, or another continuation has opened more.
        """
        assert self._agreed is not None
        folder, rank = self._options.folder, self._rank
        release.check_unmarked(folder, rank, self._agreed.run)
        release.check_charged(rank, self._agreed.run, self._held.charged)
        last = self._checkpoint(self._steps, shares, optimizer, source)
        last = replace(last, recipients=self._recipients, outputs=outputs)
        _write(release.release_path(folder, rank), last)
        self._held = replace(self._held, release=last)
        return last.release

    def mark(self) -> None:
        """The stored release is the only one that this party opens; its checkpoints are gone.

        To be called once all parties have stored it, and before anything is opened. No opening is
        complete without every party's words, which a party gives after its own mark. A program that
        has several parties marks one after another: of two of its copies the one that is first at
        the first party finishes the run.

        Raises:
            PeaError: another release of this run was marked in the meantime.
        """
        stored = self._held.release
        assert stored is not None
        folder = self._options.folder
        release.mark(folder, self._rank, stored.run, stored.release)
        files.remove(folder, self._rank)

    @property
    def released(self) -> tuple[str, str]:
        """Names of the run and of its stored release; empty without one."""
        stored = self._held.release
        return ("", "") if stored is None else (stored.run, stored.release)

    def write_result(self, report: str, opened: Mapping[str, npt.ArrayLike]) -> None:
        """What came of the run, and what was opened, are on disk beside the checkpoints.

        Raises:
            ArgumentError: they cannot be written.
        """
        folder = self._options.folder
        try:
            release.write_result(folder, self._rank, report, opened)
        except OSError as error:
            advice = f"{error}. Then resume the run: it opens the same result."
            raise unusable(str(folder), "a folder to write", advice) from error

    def complete(self) -> None:
        """This party's shares are gone; to be called once all parties have the result."""
        files.remove_openings(self._options.folder, self._rank)
        release.remove(self._options.folder, self._rank)

    def _checkpoint(
        self,
        step: int,
        shares: Mapping[str, Integers],
        optimizer: Mapping[str, Any],
        source: Mapping[str, Any] | None,
    ) -> Checkpoint:
        assert self._agreed is not None
        return Checkpoint(
            rank=self._rank,
            run=self._agreed.run,
            attempt=self._agreed.attempt,
            step=step,
            resumed=self._resumed,
            settings=self._settings,
            optimizer=optimizer,
            source=source,
            shares=shares,
            entry=self.entry,
            charges=self._charges,
        )


def _write(path: Path, words: Checkpoint) -> None:
    """Writes words that will be opened, or raises ArgumentError."""
    try:
        files.write(path, words)
    except OSError as error:
        advice = f"{error}. Then resume the run: they were not opened."
        raise unusable(str(path), "a file to write", advice) from error
