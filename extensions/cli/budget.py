"""The command of `pea` about the ledger of a data set, and which ledgers a run keeps."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from extensions.cli import console
from extensions.cli.answer import COUNTS, left_of, number, short, wrapped
from extensions.cli.options import Report
from extensions.errors import ArgumentError
from extensions.owners.data import is_named_as_records
from extensions.runs.budget import (
    Account,
    Cap,
    Entry,
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
    shown = summary(account, delta)
    console.write(shown, json_out)
    _show(shown)


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


def _delta_of(account: Account) -> float:
    """Returns at which delta runs are added up: the cap's, the largest of theirs, or a usual one.

    At the largest delta each run has an epsilon, which need not be at a smaller one than its own.
    """
    if account.cap is not None:
        return account.cap.delta
    return max(account.deltas, default=USUAL_DELTA)


def summary(account: Account, delta: float | None = None) -> dict[str, Any]:
    """Returns what a ledger says, as JSON has it.

    Args:
        account: of the data set.
        delta: at which it is added up; by default the cap's, or that of the runs.
    """
    delta, cap = delta or _delta_of(account), account.cap
    return {
        "runs": [_run(entry, delta) for entry in account.entries],
        "epsilon": account.epsilon(delta),
        "delta": delta,
        "deltas": account.deltas,
        "neighbours": "add-remove",
        "unit": account.unit,
        "exact": sum(entry.exact for entry in account.entries),
        "cap": None if cap is None else {**vars(cap), "counted": account.counted(cap.delta)},
        "left": account.left(),
    }


def _run(entry: Entry, delta: float) -> dict[str, Any]:
    training, held_out = entry.parts(delta)
    return {
        "name": entry.name,
        "began": entry.began,
        "run": entry.title + (f", {entry.told} told" if entry.told else ""),
        "state": "spent" if entry.spent else "reserved",
        "training": training,
        "held_out": held_out,
        "epsilon": entry.epsilon(delta),
        "delta": entry.delta,
        "opens": list(entry.opens),
        "exact": entry.exact,
    }


def _show(shown: dict[str, Any]) -> None:
    titles = ("name", "began", "state", "training", "held out", "together", "run")
    table = Table(*titles, box=None, padding=(0, 1, 0, 0))
    for column in table.columns[:-1]:
        column.no_wrap = True
    for run in shown["runs"]:
        epsilons = [number(run[name]) for name in ("training", "held_out", "epsilon")]
        if run["exact"]:
            epsilons[1] = "exact"
        others = [title for title in run["opens"] if title not in COUNTS]
        shows = f"; opens {short(others)}" if others else ""
        table.add_row(run["name"], run["began"][:10], run["state"], *epsilons, run["run"] + shows)
    if shown["runs"]:
        console.out.print(table)
    for sentence in told(shown):
        for line in wrapped(sentence):
            console.out.print(line, highlight=False, soft_wrap=True)


def told(shown: Mapping[str, Any]) -> Iterator[str]:
    """Yields what `pea budget` says beside the runs.

    Args:
        shown: a `summary`.
    """
    cap, delta, unit = shown["cap"], shown["delta"], shown["unit"]
    yield (
        f"epsilon {number(shown['epsilon'])} at delta = {delta:g}, all runs together; one {unit} "
        "added or removed"
    )
    if any(run["held_out"] for run in shown["runs"]):
        yield "Each record is charged with both: another --seed-data swaps who is held out."
    if len(shown["deltas"]) > 1:
        listed = ", ".join(f"{each:g}" for each in shown["deltas"])
        yield f"Runs have deltas {listed}: all are added up at {delta:g}; --delta is another."
    if shown["exact"]:
        yield f"{shown['exact']} of them used held-out records exactly: no epsilon covers these"
    if cap is None:
        yield "no cap: --cap EPSILON --delta D sets one"
        return
    covers = "training alone" if cap["except_held_out"] else "every record"
    left = left_of([{**cap, "left": shown["left"]}])
    yield f"cap at delta = {cap['delta']:g}, for {covers}; left for further runs: {left}"
