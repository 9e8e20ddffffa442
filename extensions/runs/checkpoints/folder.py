"""What a party finds in its folder, before it tells the others."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from extensions.errors import ArgumentError
from extensions.runs.checkpoints import marks
from extensions.runs.checkpoints.files import KINDS, MARK, RESULT, Checkpoint, Files, unusable


@dataclass(frozen=True, kw_only=True)
class Held:
    """What a folder has of one run.

    Attributes:
        folder: where it lies.
        run: name of the run; empty without one.
        checkpoints: of steps.
        openings: the party's words of releases on the way.
        charged: what the run had spent when something was last opened on the way, or None.
        release: the party's words of all that will be opened, or None.
        marked: the release that the party has marked, or None.
        result: where the result lies, or None without one.
    """

    folder: Path = Path()
    run: str = ""
    checkpoints: tuple[Checkpoint, ...] = ()
    openings: tuple[Checkpoint, ...] = ()
    charged: Checkpoint | None = None
    release: Checkpoint | None = None
    marked: str | None = None
    result: Path | None = None

    @property
    def entry(self) -> str:
        """Name of the run in the ledger of the party's data set; empty without shares."""
        every = (*self.checkpoints, *self.openings, self.charged, self.release)
        return next((each.entry for each in every if each is not None), "")

    @property
    def done(self) -> bool:
        """Whether the party removed its words, since all parties have the result."""
        return self.marked is not None and self.release is None and self.result is not None

    def finished(self) -> ArgumentError:
        """Returns why the run is not resumed, and where its result is."""
        found = "" if self.result is None else f"Its result is in {self.result}. "
        return ArgumentError(
            "checkpoint",
            f"{self.folder}, of a run that was finished",
            "of a run that is not finished",
            f"{found}To finish it again would spend its privacy budget again: start a new run.",
        )


def make_new(files: Files) -> None:
    """Makes the folder, which has nothing of an earlier run of the party."""
    marks.marked(files, "")  # a mark that cannot be made is better missed now
    folder = files.folder
    if files.all(*KINDS, MARK, RESULT):
        raise unusable(
            str(folder),
            f"a folder without an earlier run of party {files.rank}",
            "Give {resume=True} to go on with that run, or choose new folders here and for {save}.",
        )
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise unusable(str(folder), "a folder that can be made", str(error)) from error


def look(files: Files, settings: Mapping[str, Any]) -> Held:
    """Returns what a folder has of the party's run, which can go on.

    Raises ArgumentError if that is nothing, or a file that is damaged, of other settings, of
    another party or of several runs; if the run has opened more than the folder knows of; or if it
    was finished, and the folder has neither the words of the release nor the result.
    """
    folder = files.folder
    steps, openings, charged, stored = map(files.read, KINDS)
    every = (*steps, *openings, *charged, *stored)
    runs = _runs_of(files, every)
    if not runs:
        raise unusable(
            str(folder),
            f"a folder with a checkpoint of party {files.rank}",
            "If no checkpoint was written yet, nothing was released: start again without {resume}, "
            "in a new folder.",
        )
    if len(runs) > 1:
        raise unusable(f"{folder}, of several runs", "of one run")
    for checkpoint in every:
        _check(checkpoint, settings)
    (run,) = runs
    held = Held(
        folder=folder,
        run=run,
        checkpoints=steps,
        openings=openings,
        charged=next(iter(charged), None),
        release=next(iter(stored), None),
        marked=marks.marked(files, run),
        result=next(iter(files.all(RESULT)), None),
    )
    if held.marked is None and not marks.is_charged(files, run, held.charged):
        allowed = "the folder in which the run went on"
        advice = "Resume it there, because only that folder has what it spent."
        raise unusable(f"{folder}, without all that its run has opened", allowed, advice)
    if held.marked is None or held.done:
        return held
    if held.release is None or held.release.release != held.marked:
        raise held.finished()
    return replace(held, checkpoints=())


def runs_in(folder: Path) -> set[str]:
    """Returns the names of the runs of which any party has something in a folder."""
    named = [re.match(r"party-(\d+)[.-]", path.name) for path in folder.glob("party-*")]
    every = [Files(folder, rank) for rank in {int(found[1]) for found in named if found}]
    return {run for files in every for run in _runs_of(files, files.read(*KINDS))}


def _runs_of(files: Files, stored: Sequence[Checkpoint]) -> set[str]:
    return {each.run for each in stored} | marks.noted(files).keys()


def _check(checkpoint: Checkpoint, settings: Mapping[str, Any]) -> None:
    for name, value in settings.items():
        before = checkpoint.settings.get(name)
        if before != value:
            advice = "Resume with the settings that the run started with."
            raise ArgumentError(name, value, f"{before!r}, as at the start of the run", advice)
