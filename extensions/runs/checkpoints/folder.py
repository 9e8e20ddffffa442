"""What a party finds in its folder, before it tells the others."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from extensions.errors import ArgumentError
from extensions.runs.checkpoints import files, release
from extensions.runs.checkpoints.files import Checkpoint, unusable


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
            "of a run whose result was not opened yet",
            f"{found}Finishing it again would spend its privacy budget again: start a new run.",
        )


def make_new(folder: Path, rank: int) -> None:
    """The folder is there, and has nothing of an earlier run of the party.

    Raises:
        ArgumentError: it has; or it, or the user's state folder, cannot be written.
    """
    release.marked(folder, rank, "")  # a mark that cannot be made is better missed now
    found = [*files.paths_in(folder, rank), *files.openings_in(folder, rank)]
    if found or files.charges_path(folder, rank).exists() or release.exists(folder, rank):
        raise unusable(
            str(folder),
            f"a folder without an earlier run of party {rank}",
            "Go on with it by {resume=True}, or choose another folder, and another one for {save}.",
        )
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise unusable(str(folder), "a folder that can be made", str(error)) from error


def look(folder: Path, rank: int, settings: Mapping[str, Any]) -> Held:
    """Returns what a folder has of the party's run, which can go on.

    Args:
        folder: of its checkpoints.
        rank: of the party.
        settings: of the run.

    Raises:
        ArgumentError: nothing, or a file that is damaged, of other settings, of another party or
            of several runs; a run that has opened more than the folder knows of; or one that was
            finished, of which the folder has neither the words of the release nor the result.
    """
    found, openings, charged, stored = _read(folder, rank)
    every = (*found, *openings, *charged, *stored)
    runs = _runs_of(folder, rank, every)
    if not runs:
        raise unusable(
            str(folder),
            f"a folder with a checkpoint of party {rank}",
            "If none was written yet, nothing was released: start again without {resume}, in "
            "a new folder.",
        )
    if len(runs) > 1:
        raise unusable(f"{folder}, of several runs", "of one run")
    for checkpoint in every:
        _check(checkpoint, settings)
    (run,) = runs
    result = release.result_path(folder, rank)
    held = Held(
        folder=folder,
        run=run,
        checkpoints=found,
        openings=openings,
        charged=charged[0] if charged else None,
        release=stored[0] if stored else None,
        marked=release.marked(folder, rank, run),
        result=result if result.exists() else None,
    )
    if held.marked is None and not release.is_charged(rank, run, held.charged):
        allowed = "the folder in which the run went on"
        advice = "Resume it there: what it has spent is in no other."
        raise unusable(f"{folder}, without all that its run has opened", allowed, advice)
    if held.marked is None or held.done:
        return held
    if not stored or stored[0].release != held.marked:
        raise held.finished()
    return replace(held, checkpoints=())


def runs_in(folder: Path) -> set[str]:
    """Returns the names of the runs of which any party has something in a folder.

    Raises:
        ArgumentError: a file of theirs is damaged.
    """
    named = [re.match(r"party-(\d+)[.-]", path.name) for path in folder.glob("party-*")]
    ranks = {int(found[1]) for found in named if found is not None}
    every = {rank: [one for kind in _read(folder, rank) for one in kind] for rank in ranks}
    return {run for rank, stored in every.items() for run in _runs_of(folder, rank, stored)}


def _read(folder: Path, rank: int) -> tuple[tuple[Checkpoint, ...], ...]:
    """A party's checkpoints, its words of releases on the way, its charges, and its release."""
    last = (files.charges_path(folder, rank), release.release_path(folder, rank))
    kinds = (
        files.paths_in(folder, rank),
        files.openings_in(folder, rank),
        *([path] if path.exists() else [] for path in last),
    )
    return tuple(tuple(files.read(path, rank) for path in paths) for paths in kinds)


def _runs_of(folder: Path, rank: int, stored: Sequence[Checkpoint]) -> set[str]:
    finished = release.run_of(folder, rank)
    return {each.run for each in stored} | ({finished} if finished else set())


def plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings as JSON gives them back."""
    back: dict[str, Any] = json.loads(json.dumps(settings))
    return back


def _check(checkpoint: Checkpoint, settings: Mapping[str, Any]) -> None:
    for name, value in settings.items():
        before = checkpoint.settings.get(name)
        if before != value:
            advice = "Resume with the settings of the run."
            raise ArgumentError(name, value, f"{before!r}, as when the run was begun", advice)
