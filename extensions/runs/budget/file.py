"""The ledger of a data set as a file beside its records, changed by one process at a time."""

import os
import pwd
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from extensions import durable
from extensions.checks import beginning
from extensions.errors import ArgumentError
from extensions.runs.budget.account import Account, Event, now

SUFFIX = ".budget.json"
_unusable = partial(ArgumentError, "budget", code="file")


def path_of(records: Path) -> Path:
    """Returns where the ledger of a file of records lies, or the ledger itself.

    That of a symbolic link is its target's. A hard link has one of its own, as a copy has: backups
    and package stores make them.
    """
    real = followed(records)
    if any(path.name.endswith(SUFFIX) for path in (records, real)):
        return real
    return followed(real.with_name(real.name + SUFFIX))


def followed(path: Path) -> Path:
    """Returns the file to which a path leads over all symbolic links; it need not be there yet.

    Every ledger is read, locked and written there, so that one ledger of several names stays one.
    Raises ArgumentError if links lead in a circle, or into a folder that is not there: it may be on
    a disk that is not mounted, where the ledger says what was spent.
    """
    real = Path(os.path.realpath(path))
    if real.is_symlink():
        given = f"{path}, whose symbolic links lead in a circle"
        raise _unusable(given, "a file, or a link to one", "Make the link anew.")
    links = [one for one in (path, *path.parents) if one.is_symlink()]
    if not real.parent.is_dir() and not all(link.exists() for link in links):
        allowed = "a link into an existing folder"
        advice = f"Mount or make {real.parent}, or make the link anew."
        raise _unusable(f"{path}, a symbolic link to {real}", allowed, advice)
    return real


def check_apart(ledgers: Sequence[Path | None]) -> None:
    """Checks that no two parties of one run have one ledger, by whatever links.

    A record of both would count twice in each sum, which costs more than two runs.
    """
    kept = [followed(path) for path in ledgers if path is not None]
    if len({*kept}) < len(kept):
        advice = "If all parties share one data set, give the ledger to the first party only."
        raise ArgumentError("ledgers", [*map(str, kept)], "another file for each party", advice)


def read(path: Path) -> Account:
    """Returns what the ledger says; an empty account if there is none."""
    path = followed(path)
    try:
        return Account.from_json(path.read_bytes())
    except FileNotFoundError:
        return Account()
    except OSError as error:
        raise _unusable(str(path), "a file that can be read", str(error)) from error
    except ArgumentError as error:
        advice = (
            "Restore it from a backup, because it notes what was spent. If an earlier `pea pencil "
            "data` wrote it, give it as {ledger} of that command, and another file as {budget}. If "
            "a later version wrote it, use that version."
        )
        hint = f"{error.hint} {advice}"
        raise _unusable(str(path), "an undamaged ledger of this version", hint) from error


def update(path: Path, change: Callable[[Account], Account]) -> Account:
    """Returns the account after a change, which is on disk as a whole or not at all.

    Of two changes at once, by whatever processes of this machine, one sees the other's.
    """
    path = followed(path)
    try:
        with durable.locked(path.parent):
            before = read(path)
            after = change(before)
            if after != before:
                after = replace(after, log=(*before.log, *_events(before, after)))
                with durable.write(path) as file:
                    file.write(after.to_json().encode())
            return after
    except OSError as error:
        advice = f"{error}. Keep the ledger elsewhere as {{budget}}, or keep none: {{budget=none}}."
        raise _unusable(str(path), "a file that can be written", advice) from error


def _events(before: Account, after: Account) -> Iterator[Event]:
    """Yields what was done to a ledger, which is found by comparison: no change goes unnoted."""
    made = partial(Event, when=now(), user=_user())
    if after.cap != before.cap and (cap := after.cap) is not None:
        what = f"set the cap to epsilon {cap.epsilon:g} at delta {cap.delta:g}"
        yield made(run="", what=what + ", for training alone" * cap.except_held_out)
    if after.most_alignments != before.most_alignments:
        yield made(run="", what=f"set the most alignments to {after.most_alignments}")
    for entry in before.entries:
        if after.find(entry.name) is None:
            yield made(run=entry.name, what=f"freed {entry.title}")
    for entry in after.entries:
        then = before.find(entry.name)
        if then is None:
            yield made(run=entry.name, what=f"entered {entry.title}")
        opened = then.opens if then is not None and then.spent else ()
        for title in entry.opens if entry.spent else ():
            if title not in opened:
                yield made(run=entry.name, what=f"opened {title}")


def _user() -> str:
    """Whose process this is, as the system has it."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def is_ledger(path: Path) -> bool:
    """Whether a file is a ledger, or is named as one."""
    if os.path.realpath(path).endswith(SUFFIX):
        return True
    if not beginning(path).startswith(b"{"):
        return False
    try:
        read(path)
    except ArgumentError:
        return False
    return True
