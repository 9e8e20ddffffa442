"""What a run does with the ledgers of its owners: it enters itself, and notes what it opens."""

from collections.abc import Sequence
from pathlib import Path

from extensions.errors import ArgumentError
from extensions.runs.budget.account import Account, Entry
from extensions.runs.budget.file import update


class Reservations:
    """A run in the ledgers of those owners whose records this program has.

    Args:
        entries: the ledger of each owner that keeps one, and the entry of the run in it.
    """

    def __init__(self, entries: Sequence[tuple[Path, Entry]] = ()) -> None:
        self._entries = entries
        self._new: list[tuple[Path, Entry]] = []

    def reserve(self) -> None:
        """The run counts in every ledger, before anything of it is shared.

        A run that goes on is in it already, unless its owner freed it.

        Raises:
            ArgumentError: a ledger cannot be written, or its cap does not allow the run; it is then
                in none of them that it was not in before.
        """
        try:
            for path, entry in self._entries:
                if _enter(path, entry):
                    self._new.append((path, entry))
        except ArgumentError:
            self.free()
            raise

    def spend(self) -> None:
        """The run is spent in every ledger, before anything is opened; once, however often called.

        Raises:
            ArgumentError: its owner freed it in the meantime, and the cap does not allow it now.
        """
        for path, entry in self._entries:
            _spend(path, entry)

    def tell(self, most: int) -> None:
        """One more step is told in every ledger, before it is; the run is spent with its first one.

        Args:
            most: of its steps. Of programs that make the same run at once none tells one beyond.

        Raises:
            ArgumentError: all were told, or as in `spend`.
        """
        for path, entry in self._entries:
            _tell(path, entry, most)

    def free(self) -> None:
        """What `reserve` entered is taken out, of a run of which nothing can be opened any more."""
        for path, entry in self._new:
            _free(path, entry.name)
        self._new = []


def _enter(path: Path, entry: Entry) -> bool:
    """Whether the run was not in a ledger, in which it is now."""
    entered = False

    def enter(account: Account) -> Account:
        nonlocal entered
        after = _with(account, path, entry)
        entered = after is not account
        return after

    update(path, enter)
    return entered


def _spend(path: Path, entry: Entry) -> None:
    update(path, lambda account: _with(account, path, entry).spend(entry.name))


def _tell(path: Path, entry: Entry, most: int) -> None:
    update(path, lambda account: _with(account, path, entry).tell(entry.name, most))


def _with(account: Account, path: Path, entry: Entry) -> Account:
    """The account in which the run is, whether it was before or not."""
    return account if account.find(entry.name) else account.with_entry(entry, str(path))


def _free(path: Path, name: str) -> None:
    def free(account: Account) -> Account:
        found = account.find(name)
        return account if found is None or found.spent else account.without(name)

    update(path, free)
