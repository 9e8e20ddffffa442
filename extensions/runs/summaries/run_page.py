"""The page of one run, made of its report: what came out, what it cost, and who saw what."""

import html
import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from extensions.errors import ArgumentError
from extensions.layers.measures import KEYS
from extensions.layers.spec import ADDITIVE
from extensions.privacy.accounting import Ledger
from extensions.runs.summaries.forecast import size
from extensions.runs.summaries.page import Point, bars, html_table, line_chart, page_of
from extensions.runs.summaries.result import number, of_report

Report = Mapping[str, Any]
_POINTS = 12
_NEAR = 0.01
_NAMES = {
    "accuracy": "Accuracy",
    "majority": "Always the majority class",
    "auc": "AUC",
    "brier": "Brier score (0 is best)",
    "brier_skill": "Brier skill (0: as good as predicting the shares)",
    "rmse": "Root of the mean squared error",
    "rmse_of_mean": "Always the mean",
    "r2": "R²",
    "prevalence": "Share",
    "recall": "Recall",
    "precision": "Precision",
    "recall_at_prevalence": "Recall and precision of the top share",
}
_OF_ONE_RUN = ("config_file", "json_out", "save", "checkpoint", "resume", "csv", "tensorboard")
_VERSION = "version of "
_SHARED = "shapes, numbers of records, settings, steps and timing"
_NOTHING = "records, gradients, weights and losses of others"


def write_page_of(report: Report, command: str) -> str:
    """Returns the page of a report of `pea train`, `pea party` or `pea fl`.

    Args:
        report: as the command wrote it.
        command: that repeats the run.
    """
    federated = "history" in report
    parts = [
        html_table(["", ""], [*of_report(report)] if not federated else _of_rounds(report)),
        *(_quality(report) if not federated else ()),
        *(_accuracies(report) if federated else _privacy(report)),
        *_costs(report),
        "<h2>Who saw what</h2>",
        html_table(["Who", "Learned", "Did not learn"], [*_seen(report)]),
        *_repeat(report, command),
    ]
    title = f"Run report: {report.get('model')} on {report.get('data')}"
    return page_of(title, "\n".join(parts))


def _of_rounds(report: Report) -> list[tuple[str, str]]:
    """What came of a federated run, in a few lines."""
    epsilon, delta = report.get("epsilon"), report.get("delta")
    spent = "none" if epsilon is None else f"epsilon {number(epsilon)} at delta {delta:g}"
    accuracy = report.get("accuracy")
    return [
        ("accuracy", "not evaluated" if accuracy is None else f"{accuracy:.3f}"),
        ("privacy", f"{spent}; protects {report.get('epsilon_protects') or 'nobody'}"),
        ("run", f"{report['rounds']} rounds, {report['seconds']:.1f} s"),
        ("bytes", f"{size(report['bytes_up'])} up and {size(report['bytes_down'])} down"),
        ("protection", f"{report['aggregator']}, {report['mechanism']}"),
    ]


def _quality(report: Report) -> Iterator[str]:
    """Measures with their 95 % intervals."""
    rows: list[list[Any]] = []
    for key in KEYS:
        value, of_class = report.get(key), _NAMES.get(key, key)
        if "interval" in key or (value is None and report.get(f"{key}_interval") is None):
            continue
        if not isinstance(value, Mapping):
            rows.append([of_class, value, *_intervals(report, key)])
            continue
        around = report.get(f"{key}_interval") or {}
        rows += [
            [f"{of_class}: {one}", each, _range(around.get(one)), None]
            for one, each in value.items()
        ]
    if rows:
        yield "<h2>Quality on held-out records</h2>"
        yield html_table(
            ["Measure", "Value", "95 %, these records", "95 %, all such records"], rows
        )


def _intervals(report: Report, key: str) -> list[str | None]:
    return [_range(report.get(f"{key}_interval{end}")) for end in ("", "_population")]


def _range(interval: Sequence[float] | None) -> str | None:
    return None if interval is None else f"{interval[0]:.3f} to {interval[1]:.3f}"


def _privacy(report: Report) -> Iterator[str]:
    """Epsilon by step, and what it is if noise of others is missing."""
    yield "<h2>Privacy</h2>"
    if report.get("epsilon") is None:
        yield "<p>This run was not private: the model may reveal anything about a record.</p>"
        return
    if points := epsilon_by_step(report):
        yield line_chart(points, "step", f"epsilon at delta {report['delta']:g}")
        yield (
            "<p class='note'>The line shows a record's epsilon after each step, with all that came "
            "before the steps. It depends on the settings only.</p>"
        )
    if missing := report.get("epsilon_without_noise_of"):
        yield "<p>You cannot see whether others add their noise. If they add none, epsilon is:</p>"
        rows = [[who, number(_real(value))] for who, value in missing.items()]
        yield html_table(["Parties without noise", "Epsilon"], rows)


def _real(value: float | None) -> float:
    return math.inf if value is None else value  # JSON has no number for it


def epsilon_by_step(report: Report) -> list[Point]:
    """Returns steps and the epsilon after each, at most 13; nothing if they do not add up.

    All that it takes is in the report. What the report says of the last step must come of it.
    """
    last, delta = report.get("steps"), report.get("delta")
    if (
        not last
        or last < 2
        or not delta
        or not report.get("epsilon")
        or not report.get("noise_multiplier")
    ):
        return []
    begun = {"whitening": (report.get("noise_multiplier_whiten"), 1.0, 1)}
    if report.get("model") == ADDITIVE:
        begun["counts"] = (report.get("noise_multiplier_counts"), 1.0, 1)
    rate = report["sample_rate"]
    begun["start"] = (report.get("noise_multiplier_init"), rate, report.get("init_steps") or 0)
    found = []
    for step in sorted({round(last * part / _POINTS) for part in range(_POINTS + 1)}):
        ledger = Ledger()
        for name, (noise, share, steps) in {
            **begun,
            "training": (report["noise_multiplier"], rate, step),
        }.items():
            if noise and steps:
                ledger.record(name, noise_multiplier=noise, sample_rate=share, steps=steps)
        try:
            found.append((step, ledger.get_epsilon(delta, neighbours=report["neighbours"])))
        except ArgumentError:
            return []
    return found if math.isclose(found[-1][1], report["epsilon"], rel_tol=_NEAR) else []


def _accuracies(report: Report) -> Iterator[str]:
    """Accuracy by round of a federated run."""
    points = [(one["number"], one["accuracy"]) for one in report["history"]]
    if points := [(x, y) for x, y in points if y is not None]:
        yield "<h2>Accuracy by round</h2>"
        yield line_chart(points, "round", "accuracy on the test set")


def _costs(report: Report) -> Iterator[str]:
    """Seconds and bytes of each phase or round, and bytes of each party."""
    yield "<h2>Time and traffic</h2>"
    if "history" in report:
        head = ["Round", "Seconds", "Bytes up", "Bytes down", "Clients", "Left out"]
        yield html_table(
            head,
            [
                [
                    f"{x['number']}",
                    x["seconds"],
                    x["bytes_up"],
                    x["bytes_down"],
                    len(x["included"]),
                    len(x["selected"]) - len(x["included"]),
                ]
                for x in report["history"]
            ],
        )
        return
    phases = report.get("phases") or []
    spent = [(one["phase"], one["seconds"]) for one in phases]
    if phases:
        beside = report["seconds"] - sum(seconds for _, seconds in spent)
        yield bars(
            [*spent, ("starting and ending", max(0.0, beside))], lambda value: f"{value:.1f} s"
        )
        if all(one["bytes"] is not None for one in phases):
            yield "<p>Bytes of one party, sent and received:</p>"
            yield bars([(one["phase"], one["bytes"]) for one in phases], size)
    head = ["Party", "Records", "Held out", "Sent", "Received", "From the dealer"]
    columns = [report.get(key) or [] for key in ("records", "held_out_records")]
    for key in ("sent_bytes", "received_bytes", "dealt_bytes"):
        columns.append([size(each) for each in report.get(key) or [] if any(report[key])])
    yield html_table(
        head,
        [
            [f"{rank}", *(each[rank] if rank < len(each) else None for each in columns)]
            for rank in range(report["parties"])
        ],
    )


def _seen(report: Report) -> Iterator[tuple[str, str, str]]:
    """Yields who learned what, and what stayed secret from them."""
    if "history" in report:
        alone, both = report.get("server_learns"), report.get("server_and_one_client_learn")
        if alone is not None and both is not None:
            yield "the server", f"{alone}, in the last round", "the updates behind a sum"
            yield "the server and one client", f"{both}, in the last round", "other updates"
        yield "each client", "the model of each round", "updates of others"
        return
    if report["backend"] == "clear":
        yield "whoever ran it", "everything: this backend is plaintext", "nothing"
        return
    if report.get("open") == "each-step" or report.get("method") == "statistics":
        yield "each party", _SHARED, "records and gradients of others"
        yield "all parties but one", "the other's sums, under its own noise alone", "its records"
    else:
        yield "each party", _SHARED, _NOTHING
        yield from _helpers(report)
    opened = "; ".join(report.get("opened") or []) or "nothing"
    yield "all parties, as it was opened", opened, "anything else"


def _helpers(report: Report) -> Iterator[tuple[str, str, str]]:
    """Yields who else takes part in hidden training, or could break it."""
    secret = "every secret", "nothing"
    if report["backend"] == "tfe":
        yield "one of ABY3's three servers", "shapes and timing", "all values"
        yield "two servers together, or the client", *secret
    elif report.get("provider") == "dealer":
        yield "the dealer alone", "shapes, the order of operations and timing", "all values"
        yield "the dealer and a party together", *secret
    elif report.get("provider") == "first party trusted":
        yield "party 0, which dealt", *secret
    else:
        yield "all parties but one", "what each of them learned", _NOTHING


def _repeat(report: Report, command: str) -> Iterator[str]:
    """How to do it again: the command, versions, and what the parties agreed on."""
    yield "<h2>Repeat it</h2>"
    if command:
        yield f"<pre>{html.escape(command)}</pre><p>Its noise will be new.</p>"
    manifest = report.get("manifest") or {}
    settings = manifest.get("run") or report.get("settings") or {}
    versions = report.get("versions") or {
        name.removeprefix(_VERSION): value
        for name, value in settings.items()
        if name.startswith(_VERSION)
    }
    shown = [[name, str(value)] for name, value in versions.items()]
    if digest := manifest.get("digest"):
        shown.append(["digest of the settings that all parties had", digest])
    yield html_table(["Software", "Version"], shown)
    told = [[name, str(value)] for name, value in settings.items() if value is not None]
    told = [row for row in told if not row[0].startswith(_VERSION) and " by rule" not in row[0]]
    all_of_them = html_table(["Setting", "Value"], told)
    yield f"<details><summary>All settings</summary>{all_of_them}</details>"


def command_of_run(report: Report) -> str:
    """Returns what to type to repeat a run; empty if its report does not say."""
    if "history" in report:
        words, settings = ["pea", "fl"], dict(report.get("settings") or {})
        for name in _OF_ONE_RUN:
            settings.pop(name, None)
        if settings.get("epsilon") is not None:  # from which the noise follows
            settings.pop(f"{settings['mechanism']}.noise_multiplier", None)
    else:
        words, settings = ["pea", "train"], dict(report.get("options") or {})
        if not settings:
            return ""
    for name, value in settings.items():
        flag = f"--{name.replace('_', '-')}"
        for each in value if isinstance(value, list) else [value]:
            if each is True:
                words.append(flag)
            elif each is not None and each is not False:
                words += [flag, str(each)]
    return shlex.join(words)
