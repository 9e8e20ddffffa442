"""What the use of a shared model costs its owners' records, in their ledgers and in its marks."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from extensions import durable
from extensions.errors import ArgumentError
from extensions.privacy.accounting import Ledger
from extensions.protocols.host import Host
from extensions.runs.budget import Account, Entry, Reservations, read, update
from extensions.runs.budget.planned_cost import entry_of, planned
from extensions.runs.checkpoints.marks import FINISHED
from extensions.runs.config import TrainConfig
from extensions.runs.model.shares import SharedModel
from extensions.runs.outputs import MODEL, account_for_count, titles_of

OPENED = "opened-models"
LATER = f"{MODEL}, after the run"


class Charge(Reservations):
    """What is noted before anything is opened: entries of runs that cost something of their own.

    Openings are ledgers that have counted the model's training, and the run's entry in each. Marks
    are name and value of what is marked as opened in the user's state folder.
    """

    def __init__(
        self,
        entries: Sequence[tuple[Path, Entry]] = (),
        openings: Sequence[tuple[Path, str]] = (),
        marks: Sequence[tuple[str, str]] = (),
    ) -> None:
        super().__init__(entries)
        self._openings, self._marks = openings, marks

    def spend(self) -> None:
        """Notes all on disk: what is opened next stays opened.

        Raises ArgumentError if another model of the same run was opened in the meantime.
        """
        for name, value in self._marks:
            if durable.claim(OPENED, name, value) != value:
                raise _opened_otherwise()
        super().spend()
        for path, entry in self._openings:
            update(path, partial(Account.opening, name=entry, title=LATER))


def charge_of_count(host: Host, config: TrainConfig, ledgers: Sequence[Path | None]) -> Charge:
    """Returns what a count of correct predictions costs the records on which it is made.

    The config is of the run that trained the model, with what is opened now.
    """
    ledger = Ledger()
    account_for_count(ledger, host, config)
    title = f"{config.model}, evaluated after its run, {config.backend}"
    exact = config.evaluate != "noisy"
    opens = titles_of(config)
    kept = [path for path in ledgers if path is not None]
    return Charge([(path, entry_of(config, ledger, opens, title, exact=exact)) for path in kept])


def charge_of_opening(
    host: Host, config: TrainConfig, shares: Sequence[SharedModel], ledgers: Sequence[Path | None]
) -> Charge:
    """Returns what opening a model costs the records on which it was trained.

    Nothing more where the ledger has the run, which was charged as if the model were opened; else
    all that the run cost. Raises ArgumentError if another release of the run, or another model of
    it, was opened before.
    """
    marks, openings, entries = [], [], []
    for rank, shared, path in zip(host.holders, shares, ledgers, strict=True):
        _check_release(shared, rank)
        marks.append((f"{shared.name} {rank}", shared.digest))
        if path is None:
            continue
        if has_run(path, shared):
            openings.append((path, shared.entry))
            continue
        ledger = planned(host, config, shared.header.spec.widths[0])
        entries.append((path, entry_of(config, ledger, [LATER])))
    for name, value in marks:
        if durable.claimed(OPENED, name) not in (None, value):
            raise _opened_otherwise()
    return Charge(entries, openings, marks)


def has_run(ledger: Path, shared: SharedModel) -> bool:
    """Returns whether a ledger has the run of which shares are."""
    return bool(shared.entry) and read(ledger).find(shared.entry) is not None


def _check_release(shared: SharedModel, rank: int) -> None:
    """A run that kept checkpoints has one release; what was saved must be of that one."""
    if not shared.run:
        return
    marked = durable.claimed(FINISHED, f"{shared.run} {rank}")
    if marked not in (None, shared.release):
        raise ArgumentError(
            "shares",
            "of a continuation of the run that was not released",
            "from the continuation whose result was opened",
            "Opening this one too would spend the run's privacy budget again.",
        )


def _opened_otherwise() -> ArgumentError:
    return ArgumentError(
        "shares",
        "of a save of which another model was opened before",
        "those that were opened before",
        "The ledgers have counted one model of that run only.",
    )
