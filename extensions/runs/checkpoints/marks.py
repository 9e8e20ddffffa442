"""What a party may open of a run, once: the marks of that, in the user's state folder.

A release is named by run, attempt, step, outputs and recipients; from its mark on the party opens
no other of the run. It stands in ``party-R.finished`` too: a folder keeps it wherever it is moved.
Of each release on the way, and of the n-th charge, the attempt is noted whose words are opened.
"""

import json

from extensions import durable
from extensions.errors import PeaError
from extensions.runs.checkpoints.files import MARK, Checkpoint, Files

FINISHED = "finished-runs"
OPENED = "opened-on-the-way"


def marked(files: Files, run: str) -> str | None:
    """Returns the release of a run that a party has marked; None if it has marked none."""
    claimed = durable.claimed(FINISHED, f"{run} {files.rank}")
    return noted(files).get(run) if claimed is None else claimed


def noted(files: Files) -> dict[str, str]:
    """Returns what the mark in a folder says: by its name the release of a run; else nothing."""
    path = files.path(MARK)
    found: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
    return found


def check_unmarked(files: Files, run: str, own: str = "") -> None:
    """Raises PeaError if a party has marked a release of a run, but perhaps this own one."""
    if marked(files, run) not in (None, own):
        raise _finished_before()


def mark(files: Files, run: str, release: str) -> None:
    """Marks a release of a run, on disk; PeaError if another one is marked."""
    if durable.claim(FINISHED, f"{run} {files.rank}", release) != release:
        raise _finished_before()
    with durable.write(files.path(MARK)) as file:
        file.write(json.dumps({run: release}).encode())


def claim_opening(stored: Checkpoint) -> None:
    """Makes words of a release on the way the only ones that a party gives for it.

    To be called once all parties have stored theirs, and before they are opened. Raises PeaError if
    those of another continuation of the run were given.
    """
    name = f"{stored.run} {stored.rank} {stored.opening}"
    if durable.claim(OPENED, name, stored.attempt) != stored.attempt:
        raise PeaError(
            f"In the meantime another continuation of this run has opened {stored.opening!r}. A "
            "second opening would spend its privacy budget again: go on with the other one."
        )


def charge_name(number: int) -> str:
    """Returns the name on the way of what a run opens once it was charged so many times."""
    return f"value-{number}"


def is_charged(files: Files, run: str, last: Checkpoint | None) -> bool:
    """Returns whether a run has opened nothing that these last charges of a party do not cover."""
    following = charge_name(last.charges + 1 if last else 1)
    if durable.claimed(OPENED, f"{run} {files.rank} {following}") is not None:
        return False
    if last is None:
        return True
    return durable.claimed(OPENED, f"{run} {files.rank} {last.opening}") in (None, last.attempt)


def _finished_before() -> PeaError:
    return PeaError(
        "In the meantime another continuation of this run was finished. A second result would "
        "spend its privacy budget again: use the first one."
    )
