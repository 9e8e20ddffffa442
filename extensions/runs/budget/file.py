"""The ledger of a data set as a file beside its records, changed by one process at a time."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from extensions import durable
from extensions.errors import ArgumentError
from extensions.runs.budget.account import Account

SUFFIX = ".budget.json"


def path_of(records: Path) -> Path:
    """Returns where the ledger of a file of records lies, or the ledger itself.

    That of a symbolic link is its target's. A hard link has one of its own, as a copy has: backups
    and package stores make them.
    """
    real = records.resolve()
    return real if real.name.endswith(SUFFIX) else real.with_name(real.name + SUFFIX)


def read(path: Path) -> Account:
    """Returns what the ledger says; an empty account if there is none.

    Raises:
        ArgumentError: it cannot be read, or is damaged.
    """
    try:
        return Account.from_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Account()
    except OSError as error:
        raise ArgumentError("budget", str(path), "a file that can be read", str(error)) from error
    except (ValueError, RecursionError) as error:
        advice = "Restore it from a backup: what it said was spent."
        raise ArgumentError("budget", str(path), "an undamaged ledger", advice) from error


def update(path: Path, change: Callable[[Account], Account]) -> Account:
    """Returns the account after a change, which is on disk as a whole or not at all.

    Of two changes at once, by whatever processes of this machine, one sees the other's.

    Raises:
        ArgumentError: of `read` and of the change; or the file cannot be written.
    """
    with _locked(path):
        before = read(path)
        after = change(before)
        if after != before:
            with durable.write(path) as file:
                file.write(after.to_json().encode())
        return after


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Keeps others out, and says what to do where nothing can be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)
    except OSError as error:
        raise ArgumentError(
            "budget",
            str(path),
            "a file that can be written",
            f"{error}. Keep the ledger elsewhere, --budget FILE, or keep none, --budget none.",
        ) from error
