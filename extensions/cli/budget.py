"""The command of `pea` about the ledger of a data set, and which ledgers a run keeps."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from extensions.cli import console
from extensions.cli.options import Report
from extensions.errors import ArgumentError
from extensions.owners.data import is_named_as_records
from extensions.runs.budget import (
    Account,
    Cap,
    check_apart,
    followed,
    path_of,
    read,
    update,
)
from extensions.runs.budget.file import SUFFIX

NO_BUDGET = "none"
USUAL_DELTA = 1e-5

BudgetFile = Annotated[
    Path | None,
    typer.Option(
        "--budget",
        help="Ledger of the records (`pea budget`), a file or a folder; by default beside each "
        "owner's own file, and none for data sets of --data; none: keep none.",
    ),
]


def ledgers_of(own: Sequence[Path], parties: int, given: Path | None) -> list[Path | None]:
    """Returns each party's ledger, or None for one that keeps none.

    Args:
        own: each party's own file, no two the same; empty where all have parts of one data set,
            whose ledger is then kept once, by the first.
        parties: number of parties.
        given: the option.

    Raises:
        ArgumentError: one file for the ledgers of several owners, by whatever links.
    """
    ledgers = _ledgers_of(own, parties, given)
    check_apart(ledgers)
    return ledgers


def _ledgers_of(own: Sequence[Path], parties: int, given: Path | None) -> list[Path | None]:
    if str(given) == NO_BUDGET:
        return [None] * parties
    if not own:
        if given is not None and given.is_dir():
            raise ArgumentError("budget", str(given), "a file, for records of one data set")
        return [given, *[None] * (parties - 1)]
    if given is None:
        return [path_of(path) for path in own]
    if len(own) == 1 and not given.is_dir():
        return [given]
    paths = [given / f"{followed(path).name}{SUFFIX}" for path in own]
    if not given.is_dir() or len({*paths}) < len(own):
        raise ArgumentError(
            "budget", str(given), "a folder, and files of different names, for several owners"
        )
    return [*paths]


def ledger_of(name: str, records: Path) -> Path:
    """Returns the ledger of records that are not read here: beside them, or named itself.

    Args:
        name: of the option.
        records: an owner's file, or its ledger.

    Raises:
        ArgumentError: it is neither, or there is neither it nor its ledger.
    """
    path = path_of(records)
    known = is_named_as_records(records) or path == followed(records)
    if not known or not (records.is_file() or path.is_file()):
        raise ArgumentError(
            name,
            str(records),
            f"an existing .npz, .csv or .parquet file of records, or its ledger, ...{SUFFIX}",
            "Name the file that runs are given as records: their ledger lies beside it.",
        )
    return path


def budget(
    records: Annotated[Path, typer.Argument(help="An owner's file of records, or its ledger.")],
    cap: Annotated[
        float | None, typer.Option(help="Set the epsilon that all runs may cost together.")
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="Its delta, or that at which the runs are added up.")
    ] = None,
    except_held_out: Annotated[
        bool,
        typer.Option(
            "--except-held-out",
            help="Let the cap cover training alone: predictions on held-out records may be counted "
            "exactly.",
        ),
    ] = False,
    free: Annotated[
        str | None, typer.Option(help="Take out the reservation of a run that died, by its name.")
    ] = None,
    json_out: Report = None,
) -> None:
    """Show what an owner's records were used for, what that costs, and the cap; or set the cap."""
    path = ledger_of("records", records)
    if delta is not None and not 0.0 < delta < 1.0:
        raise ArgumentError("delta", delta, "in (0, 1)", "1 / (10 records) is usual.")
    if cap is None and except_held_out:
        raise ArgumentError("except_held_out", True, "given with --cap EPSILON")
    account = read(path)
    limit = None
    if cap is not None:
        at = delta or (account.cap.delta if account.cap else None)
        if at is None:
            raise ArgumentError("delta", delta, "given with --cap", "1 / (10 records) is usual.")
        limit = Cap(epsilon=cap, delta=at, except_held_out=except_held_out)

    def changed(before: Account) -> Account:
        after = before if free is None else before.without(free)
        return after if limit is None else replace(after, cap=limit)

    if cap is not None or free is not None:
        account = update(path, changed)
    shown = summary(account, delta or (account.cap.delta if account.cap else USUAL_DELTA))
    console.write(shown, json_out)
    _show(shown)


def summary(account: Account, delta: float) -> dict[str, Any]:
    """Returns what a ledger says, as JSON has it.

    Args:
        account: of the data set.
        delta: at which it is added up.
    """
    cap = account.cap
    return {
        "runs": [
            {
                "name": entry.name,
                "began": entry.began,
                "run": entry.title + (f", {entry.told} told" if entry.told else ""),
                "state": "spent" if entry.spent else "reserved",
                "epsilon": entry.epsilon(delta),
                "opens": list(entry.opens),
                "exact": entry.exact,
            }
            for entry in account.entries
        ],
        "epsilon": account.epsilon(delta),
        "delta": delta,
        "neighbours": "add-remove",
        "unit": account.unit,
        "exact": sum(entry.exact for entry in account.entries),
        "cap": None if cap is None else vars(cap),
        "left": account.left(),
    }


def _show(shown: dict[str, Any]) -> None:
    out = console.out
    table = Table("name", "began", "state", "epsilon", "run", "opens", box=None)
    for column in table.columns[:4]:
        column.no_wrap = True
    for run in shown["runs"]:
        opens = "; ".join(run["opens"]) or "nothing"
        epsilon = _number(run["epsilon"])
        table.add_row(run["name"], run["began"][:10], run["state"], epsilon, run["run"], opens)
    if shown["runs"]:
        out.print(table)
    delta = f"delta = {shown['delta']:g}"
    out.print(
        f"epsilon {_number(shown['epsilon'])} at {delta}, all runs together, for one "
        f"{shown['unit']} added or removed",
        highlight=False,
    )
    if shown["exact"]:
        out.print(
            f"{shown['exact']} of them used held-out records exactly: no epsilon covers these",
            highlight=False,
        )
    if (cap := shown["cap"]) is None:
        out.print("no cap: --cap EPSILON --delta D sets one", highlight=False)
        return
    covers = "training alone" if cap["except_held_out"] else "every record"
    out.print(
        f"cap {cap['epsilon']:g} at delta = {cap['delta']:g}, for {covers}; left for further runs: "
        f"{shown['left']:.4g}",
        highlight=False,
    )


def _number(epsilon: float) -> str:
    return f"{epsilon:.4g}" if math.isfinite(epsilon) else "infinite"
