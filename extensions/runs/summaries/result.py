"""What a run came to, in a few lines for whoever typed the command: the report says the rest."""

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from extensions.protocols.noisy_sums.whitening import TITLE as WHITENING
from extensions.runs.outputs import BY_BIN, COUNT, STATISTICS, SUMS

WIDTH = 80
_LABEL = 10
_MARGIN = len(", and 10 more")
COUNTS = {
    f"{title}{noise}": f"{noisy}counts of held-out records"
    for title in (COUNT, BY_BIN, *SUMS.values())
    for noise, noisy in (("", ""), (", with noise", "noisy "))
}
"""What is opened of held-out records, in few words."""
_SHORT = {
    **COUNTS,
    STATISTICS: "noisy sums of products over all records, so the model",
    WHITENING: "a noisy sum of x x^T over training features x",
}
_FIRST = ("lr", "steps", "sample_rate", "max_grad_norm")


def result_lines(report: Mapping[str, Any], written: Sequence[str] = ()) -> list[str]:
    """Returns the lines of a report, or as much of it as there is, and of what lies where.

    What the model was found to be worth; what that cost a record, or a person; records, time and
    traffic; settings that followed from a rule; what is left below caps; what was opened, and
    written. Each within `WIDTH`, but for a path or name that is longer.
    """
    return [line for label, text in of_report(report, written) for line in wrapped(text, label)]


def of_report(report: Mapping[str, Any], written: Sequence[str] = ()) -> list[tuple[str, str]]:
    """Returns the same as labels and texts, each of which is one line however long."""
    said = [
        *_measures(report),
        ("privacy", _privacy(report)),
        ("run", "; ".join(filter(None, (_records(report), _traffic(report))))),
        ("settings", _chosen(report)),
        ("left", left_of(report.get("budgets", []))),
        ("opened", _opened(report, written)),
    ]
    return [(label, text) for label, text in said if text]


def wrapped(text: str, label: str = "") -> list[str]:
    """Returns a text in lines of `WIDTH`, behind a label if there is one."""
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=label.ljust(_LABEL) if label else "",
        subsequent_indent=" " * _LABEL if label else "",
        break_long_words=False,
        break_on_hyphens=False,
    )


def number(value: float) -> str:
    """Returns an epsilon, or another number that may be infinite."""
    return f"{value:.4g}" if math.isfinite(value) else "infinite"


def left_of(budgets: Sequence[Mapping[str, Any]]) -> str:
    """Returns how much of caps is left, and why that is not what epsilon leaves; "" without caps.

    Each has `epsilon` and `delta`, what is `counted` of it and `left`, and the `ledger`, if there
    may be several.
    """
    shown = [
        (f"{number(one['left'])} = cap " if one["left"] else "0, cap ")
        + f"{one['epsilon']:g} - {number(one['counted'])}"
        + (f" ({Path(one['ledger']).name}, delta {one['delta']:g})" if "ledger" in one else "")
        for one in budgets
    ]
    why = (
        ": a privacy filter counts all runs, because later runs may use earlier results. That is "
        "more than one run's epsilon, and less than the sum of several."
    )
    return ", ".join(shown) + (why if any(one["counted"] for one in budgets) else "")


def short(titles: Sequence[str]) -> str:
    """Returns what is opened, in few words."""
    return ", ".join(_SHORT.get(title, title) for title in titles) or "nothing"


def _measures(report: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields label and text of each kind of measure that there is."""
    if report.get("accuracy") is not None:
        majority = report.get("majority")
        beside = "" if majority is None else f"; always the majority class: {majority:.3f}"
        yield "accuracy", _within(report, "accuracy") + beside
    if _is_told(report, "auc"):
        yield "AUC", _within(report, "auc")
        yield "recall", _found(report)
    if report.get("rmse") is not None:
        if _is_told(report, "r2"):
            yield "R2", _within(report, "r2")
        interval = report.get("rmse_interval")
        around = f" (95 %: {interval[0]:.4g}..{interval[1]:.4g})" if interval else ""
        mean = f"always the mean: {report['rmse_of_mean']:.4g}"
        yield "rmse", f"{report['rmse']:.4g}{around}; {mean}"


def _is_told(report: Mapping[str, Any], name: str) -> bool:
    """Whether there is a measure, or an interval if it may be any."""
    return report.get(name) is not None or bool(report.get(f"{name}_interval"))


def _within(report: Mapping[str, Any], name: str) -> str:
    """A measure, with its 95 % intervals."""
    these, everyone = (report.get(f"{name}_interval{end}") for end in ("", "_population"))
    around = "" if these is None else f"95 %: {_range(these)}"
    if everyone is not None:
        both = "" if these is None else f"these records {_range(these)}, "
        around = f"{both}all such records {_range(everyone)}"
    value = "unknown" if report[name] is None else f"{report[name]:.3f}"
    return value + (f" ({around})" if around else "")


def _found(report: Mapping[str, Any]) -> str:
    """How well the rarer of two classes is found, by its probability and by rank."""
    shares, ranked = report.get("prevalence") or {}, report.get("recall_at_prevalence") or {}
    recall = report.get("recall") or {}
    if not recall:
        return ""
    name = min(shares, key=lambda one: shares[one] or 0.0) if shares else [*recall][-1]
    precision = report["precision"][name]
    told = "none predicted" if precision is None else f"precision {precision:.3f}"
    best, share = ranked.get(name), shares.get(name)
    both = "" if best is None or share is None else f"; both {best:.3f} of the top {share:.1%}"
    known = "unknown" if recall[name] is None else f"{recall[name]:.3f}"
    return f"{name}: {known}, {told} above 1/2{both}"


def _range(interval: Sequence[float]) -> str:
    """An interval, in as many digits as its width needs."""
    low, high = interval
    digits = 2 if high - low > 0.1 else 3
    return f"{low:.{digits}f}..{high:.{digits}f}"


def _privacy(report: Mapping[str, Any]) -> str:
    """What the run cost whoever it is about."""
    epsilon, held_out = report.get("epsilon"), report.get("held_out_epsilon")
    unit = (report.get("unit") or "one record").partition(";")[0]
    at = f" at delta {report['delta']:g}" if report.get("delta") is not None else ""
    counted = "" if held_out is None else f"held-out records: epsilon {held_out:.3g}"
    if epsilon is None:
        if "epsilon" in report:
            return f"none; {counted}".removesuffix("; ")
        return counted + (f"{at}, for {unit}" if counted else "")
    asked = report.get("epsilon_asked")
    spent = f"epsilon {number(epsilon)}" + ("" if asked is None else f" of {asked:g} asked")
    if report.get("split") == "columns":
        by: Mapping[str, float] = report.get("epsilon_by_neighbours") or {}
        unit = f"what other owners do not know about {unit}, except who takes part"
        unit += f" ({number(by['add-remove'])} towards others)" if by else ""
    if counted:
        counted = f"; {counted}, not added because these are other records"
    return f"{spent}{at}, for {unit}{counted}"


def _records(report: Mapping[str, Any]) -> str:
    """How many records there were, and persons, where these have several."""
    held_out = sum(report.get("held_out_records") or [])
    count, rows = sum(report.get("records") or []), report.get("rows_per_person")
    if "records" not in report:
        return f"{held_out:,} held-out records" if held_out else ""
    if rows is None:
        return f"{count:,} records, {held_out:,} held out"
    known = report.get("training_rows")
    of_each = f"at most {rows} rows each" if known is None else f"{sum(known):,} rows"
    return f"{count:,} persons with {of_each}, {held_out:,} rows of other persons held out"


def _traffic(report: Mapping[str, Any]) -> str:
    """How long the run took, and what it sent."""
    seconds, sent = report.get("seconds"), report.get("bytes_per_party")
    if seconds is None:
        return ""
    shown = [f"{seconds:.1f} s", f"{report['rounds']:,} rounds"]
    if sent is not None:
        many = sent >= 1e10
        shown.append(f"{sent / (1e9 if many else 1e6):,.1f} {'GB' if many else 'MB'} a party")
    return ", ".join(shown)


def _chosen(report: Mapping[str, Any]) -> str:
    """Settings that nobody gave, those that matter first, as many as have room in a line."""
    chosen: Mapping[str, Any] = report.get("chosen") or {}
    names = sorted(chosen, key=lambda name: _FIRST.index(name) if name in _FIRST else len(_FIRST))
    text = ""
    for place, name in enumerate(names):
        value = chosen[name]
        shown = f"{value:.3g}" if isinstance(value, float) else str(value)
        longer = f"{text}, {name} {shown} (rule)".removeprefix(", ")
        if len(longer) > WIDTH - _LABEL - _MARGIN:
            return f"{text}, and {len(names) - place} more"
        text = longer
    return text


def _opened(report: Mapping[str, Any], written: Sequence[str]) -> str:
    """What was opened, and where what was written lies."""
    return "; ".join([short(report.get("opened", [])), *written])
