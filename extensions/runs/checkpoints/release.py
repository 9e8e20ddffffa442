"""What a party has of the release of its run: its words, its mark, and the result.

A release is named by run, attempt, step, outputs and recipients. In the order of a run

1. ``party-R.release`` holds the party's shares of the model and of all that will be opened;
2. the mark names the release, in the user's state folder and in ``party-R.finished``: from then on
   the party opens that release and no other of the run;
3. ``party-R-opened.npz`` and ``party-R-result.json`` hold what was opened, the latter written last;
4. once all parties have their results, ``party-R.release`` is removed.

What a run opens on the way has a name in it. ``party-R-NAME.opening`` holds the party's words; once
all parties have stored theirs, the user's state folder notes whose attempt they are of, and no
others are opened under that name. They are removed with those of the release.

What a run opens on the way without keeping words of it, such as a count of correct predictions, is
charged first: ``party-R.charges`` holds what the run has spent with it, and the user's state folder
notes of which attempt the n-th such charge is. A folder that has not the last one is not resumed.
"""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy.typing as npt

from extensions import durable
from extensions.errors import PeaError
from extensions.owners.data import write_private
from extensions.runs.checkpoints.files import Checkpoint

FINISHED = "finished-runs"
OPENED = "opened-on-the-way"


def release_path(folder: Path, rank: int) -> Path:
    """Returns where a party keeps its words of all that will be opened."""
    return folder / f"party-{rank}.release"


def result_path(folder: Path, rank: int) -> Path:
    """Returns where a party keeps what came of the run."""
    return folder / f"party-{rank}-result.json"


def exists(folder: Path, rank: int) -> bool:
    """Returns whether a folder has anything of a release of that party."""
    paths = (release_path, result_path, _finished_path)
    return any(path(folder, rank).exists() for path in paths)


def marked(folder: Path, rank: int, run: str) -> str | None:
    """Returns the release of a run that a party has marked; None if it has marked none.

    Raises:
        ArgumentError: the state folder cannot be written.
    """
    claimed = durable.claimed(FINISHED, f"{run} {rank}")
    return _noted(folder, rank).get(run) if claimed is None else claimed


def run_of(folder: Path, rank: int) -> str | None:
    """Returns the run that was finished in a folder; None if none was."""
    return next(iter(_noted(folder, rank)), None)


def check_unmarked(folder: Path, rank: int, run: str, own: str = "") -> None:
    """Returns only if a party has marked no release of a run, but perhaps this own one.

    Raises:
        PeaError: it has.
    """
    if marked(folder, rank, run) not in (None, own):
        raise _finished_before()


def mark(folder: Path, rank: int, run: str, release: str) -> None:
    """Marks a release of a run, on disk.

    Raises:
        PeaError: another one of this run is marked.
    """
    if durable.claim(FINISHED, f"{run} {rank}", release) != release:
        raise _finished_before()
    with durable.write(_finished_path(folder, rank)) as file:
        file.write(json.dumps({run: release}).encode())


def claim_opening(rank: int, stored: Checkpoint) -> None:
    """Words of a release on the way are the only ones that a party gives for it.

    Raises:
        PeaError: those of another continuation of the run were given.
    """
    name = f"{stored.run} {rank} {stored.opening}"
    if durable.claim(OPENED, name, stored.attempt) != stored.attempt:
        raise PeaError(
            f"Another continuation of this run has opened {stored.opening!r} in the meantime; a "
            "second opening would spend its privacy budget again. Go on with the other one."
        )


def charge_name(number: int) -> str:
    """Returns the name on the way of what a run opens once it was charged so many times."""
    return f"value-{number}"


def is_charged(rank: int, run: str, last: Checkpoint | None) -> bool:
    """Returns whether a run has opened nothing that these last charges of a party do not cover.

    Raises:
        ArgumentError: the state folder cannot be written.
    """
    following = charge_name(last.charges + 1 if last else 1)
    if durable.claimed(OPENED, f"{run} {rank} {following}") is not None:
        return False
    if last is None:
        return True
    return durable.claimed(OPENED, f"{run} {rank} {last.opening}") in (None, last.attempt)


def check_charged(rank: int, run: str, last: Checkpoint | None) -> None:
    """Returns only if it `is_charged`.

    Raises:
        PeaError: another continuation of the run has opened more.
    """
    if not is_charged(rank, run, last):
        raise PeaError(
            "Another continuation of this run has opened something in the meantime, which this one "
            "does not count among what it spent. Go on with the other one."
        )


def write_result(folder: Path, rank: int, report: str, opened: Mapping[str, npt.ArrayLike]) -> None:
    """Writes what came of a run, as JSON, and what was opened, onto the disk."""
    if opened:
        write_private(folder / f"party-{rank}-opened.npz", **opened)
    with durable.write(result_path(folder, rank)) as file:
        file.write(report.encode())


def remove(folder: Path, rank: int) -> None:
    """A party's words are gone, and so is what interrupted writes left of them."""
    for path in folder.glob(f".party-{rank}.release.*"):
        path.unlink()
    release_path(folder, rank).unlink(missing_ok=True)


def _finished_before() -> PeaError:
    return PeaError(
        "Another continuation of this run was finished in the meantime; a second result would "
        "spend its privacy budget again. Use the first one."
    )


def _finished_path(folder: Path, rank: int) -> Path:
    return folder / f"party-{rank}.finished"


def _noted(folder: Path, rank: int) -> dict[str, str]:
    """What the mark in a folder says: the release of a run; nothing without one."""
    path = _finished_path(folder, rank)
    noted: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
    return noted
