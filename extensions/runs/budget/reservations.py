"""What a run does with the ledgers of its owners: it enters itself, and notes what it opens."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from extensions.errors import ArgumentError
from extensions.runs.budget.account import Account, Entry
from extensions.runs.budget.file import update


class Reservations:
    """A run in the ledgers of those owners whose records this program has."""

    def __init__(self, entries: Sequence[tuple[Path, Entry]] = ()) -> None:
        self._entries = entries
        self._new: list[tuple[Path, Entry]] = []

    def reserve(self) -> None:
        """Enters the run in every ledger, before anything of it is shared.

        A run that goes on is in it already, unless its owner freed it. Raises ArgumentError if a
        ledger cannot be written or its cap does not allow the run, which then is in no ledger that
        it was not in before.
        """
        try:
            for path, entry in self._entries:
                before = _update(path, entry)
                if before.find(entry.name) is None:
                    self._new.append((path, entry))
        except ArgumentError:
            self.free()
            raise

    def spend(self) -> None:
        """Notes the run as spent in every ledger, once, before anything is opened.

        Raises ArgumentError if its owner freed it in the meantime, and the cap does not allow it
        now.
        """
        for path, entry in self._entries:
            _update(path, entry, Account.spend)

    def tell(self, most: int) -> None:
        """Notes one more step as told in every ledger, before it is; the first spends the run.

        Of programs that make the same run at once none tells one beyond `most`.
        """
        for path, entry in self._entries:
            _update(path, entry, partial(Account.tell, most=most))

    def free(self) -> None:
        """Takes out what `reserve` entered, of a run of which nothing can be opened any more."""
        for path, entry in self._new:
            update(path, partial(_freed, entry.name))
        self._new = []


def _update(
    path: Path, entry: Entry, change: Callable[[Account, str], Account] | None = None
) -> Account:
    """Returns a ledger as it was; it has the run now, which is changed."""
    found = []

    def enter(before: Account) -> Account:
        found.append(before)
        after = before.with_entry(entry, path)
        return after if change is None else change(after, entry.name)

    update(path, enter)
    return found[0]


def _freed(name: str, account: Account) -> Account:
    found = account.find(name)
    return account if found is None or found.spent else account.without(name)
