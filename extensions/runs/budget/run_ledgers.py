"""Which ledgers a run keeps, and where the ledger of records is."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from extensions.data.datasets import is_named_as_records
from extensions.errors import ArgumentError
from extensions.runs.budget.account import Account
from extensions.runs.budget.file import SUFFIX, check_apart, followed, path_of, read

NO_BUDGET = "none"


def ledgers_of(own: Sequence[Path], parties: int, given: Path | None) -> list[Path | None]:
    """Returns each party's ledger, or None for one that keeps none.

    `own` has each party's own file, no two the same. It is empty where all have parts of one data
    set: the first then keeps its ledger for all. `given` is the option.
    """
    if str(given) == NO_BUDGET:
        return [None] * parties
    if not own:
        if given is not None and given.is_dir():
            raise ArgumentError("budget", str(given), "a file, for a single data set")
        return [given, *[None] * (parties - 1)]
    if given is None:
        paths = [path_of(path) for path in own]
    elif len(own) == 1 and not given.is_dir():
        paths = [given]
    else:
        paths = [given / f"{followed(path).name}{SUFFIX}" for path in own]
        if not given.is_dir() or len({*paths}) < len(own):
            allowed = "a folder, and the records of the owners in files of different names"
            raise ArgumentError("budget", str(given), allowed)
    check_apart(paths)
    return [*paths]


def ledger_of(name: str, records: Path) -> Path:
    """Returns the ledger of records that are not read here: beside them, or named itself."""
    path = path_of(records)
    known = is_named_as_records(records) or path == followed(records)
    if not known or not (records.is_file() or path.is_file()):
        raise ArgumentError(
            name,
            str(records),
            f"an existing .npz, .csv or .parquet file of records, or its ledger, ...{SUFFIX}",
            "Name the file of records that the runs used: their ledger lies beside it.",
        )
    return path


def spent_in(ledgers: Sequence[Path | None]) -> dict[str, Any]:
    """Returns what the report of a run says of its owners' ledgers, under the name ``budgets``.

    Nothing of those that have no cap, or cannot be read any more: what the run computed is told.
    """
    found = []
    for path in ledgers:
        with suppress(ArgumentError):
            account = Account() if path is None else read(path)
            if (cap := account.cap) is not None:
                counted, left = account.counted(cap.delta), account.left()
                found.append({"ledger": str(path), **vars(cap), "counted": counted, "left": left})
    return {"budgets": found} if found else {}
