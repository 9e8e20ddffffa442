"""The command of `pea` about the ledger of a data set."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from rich.table import Table

from extensions.cli import console
from extensions.cli.options import Report
from extensions.errors import ArgumentError
from extensions.options import Option
from extensions.runs.budget import Account, Cap, read, update
from extensions.runs.budget.run_ledgers import ledger_of
from extensions.runs.summaries.ledger import ledger_lines, summary
from extensions.runs.summaries.result import COUNTS, number, short, wrapped

BudgetFile = Annotated[
    Path | None,
    Option(
        name="budget",
        help="Ledger of the records (`pea budget`), a file or a folder; by default beside each "
        "owner's own file, but none for data sets of --data. With none, no ledger is kept.",
    ),
]


def budget(
    records: Annotated[Path, Option(help="File of an owner's records, or their ledger.")],
    /,
    cap: Annotated[
        float | None, Option(help="Set the epsilon that all runs together may spend.")
    ] = None,
    delta: Annotated[
        float | None, Option(help="Delta of the cap, or the delta at which to add up the runs.")
    ] = None,
    except_held_out: Annotated[
        bool,
        Option(
            help="Apply the cap to training only, so that predictions on held-out records may be "
            "counted without noise.",
        ),
    ] = False,
    free: Annotated[
        str | None, Option(help="Remove the reservation of a run that died, by its name.")
    ] = None,
    log: Annotated[bool, Option(help="List all entries, openings, releases and caps.")] = False,
    json_out: Report = None,
) -> None:
    """Show what an owner's records were used for, what that costs, and the cap; or set the cap."""
    path = ledger_of("records", records)
    if delta is not None and not 0.0 < delta < 1.0:
        raise ArgumentError("delta", delta, "in (0, 1)", "1 / (10 records) is usual.")
    if cap is None and except_held_out:
        raise ArgumentError("except_held_out", True, "{cap}", code="needs")
    account = read(path)
    limit = None
    if cap is not None:
        at = delta or (account.cap.delta if account.cap else None)
        if at is None:
            hint = "1 / (10 records) is usual."
            raise ArgumentError("delta", None, "with {cap}", hint, code="missing")
        limit = Cap(epsilon=cap, delta=at, except_held_out=except_held_out)

    def changed(before: Account) -> Account:
        after = before if free is None else before.without(free)
        return after if limit is None else replace(after, cap=limit)

    if cap is not None or free is not None:
        account = update(path, changed)
    shown = summary(account, delta)
    console.write(shown, json_out)
    _show(shown)
    for event in shown["log"] if log else ():
        console.out.print(*event.values(), highlight=False, soft_wrap=True)


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
    for sentence in ledger_lines(shown):
        for line in wrapped(sentence):
            console.out.print(line, highlight=False, soft_wrap=True)
