"""What a ledger says."""

from collections.abc import Iterator, Mapping
from typing import Any

from extensions.runs.budget import Account, Entry
from extensions.runs.summaries.result import left_of, number

USUAL_DELTA = 1e-5


def _delta_of(account: Account) -> float:
    """Returns at which delta runs are added up: the cap's, the largest of theirs, or a usual one.

    At the largest delta each run has an epsilon, which need not be at a smaller one than its own.
    """
    if account.cap is not None:
        return account.cap.delta
    return max(account.deltas, default=USUAL_DELTA)


def summary(account: Account, delta: float | None = None) -> dict[str, Any]:
    """Returns what a ledger says, as JSON has it, at the cap's delta or that of the runs."""
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
        "log": [event._asdict() for event in account.log],
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


def ledger_lines(shown: Mapping[str, Any]) -> Iterator[str]:
    """Yields what `pea budget` says beside the runs of a `summary`."""
    cap, delta, unit = shown["cap"], shown["delta"], shown["unit"]
    yield (
        f"epsilon {number(shown['epsilon'])} at delta = {delta:g}, all runs together; one {unit} "
        "added or removed"
    )
    if any(run["held_out"] for run in shown["runs"]):
        yield "Each record is charged for both, because another data seed holds out other records."
    if len(shown["deltas"]) > 1:
        listed = ", ".join(f"{each:g}" for each in shown["deltas"])
        yield f"Runs have deltas {listed}: all are added up at {delta:g}."
    if shown["exact"]:
        yield f"{shown['exact']} of them counted held-out records exactly: no epsilon covers that"
    if cap is None:
        yield "no cap is set: every run is allowed and entered"
        return
    covers = "training alone" if cap["except_held_out"] else "every record"
    left = left_of([{**cap, "left": shown["left"]}])
    yield f"cap at delta = {cap['delta']:g}, for {covers}; left for further runs: {left}"
