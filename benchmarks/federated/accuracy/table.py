"""Tables of curves."""

import statistics
from collections.abc import Sequence
from typing import Any

from benchmarks.federated.accuracy.experiments import CHAIN, FEDAVG, Curve, Experiment
from benchmarks.federated.accuracy.li2021 import LOGS, TABLE_III
from benchmarks.federated.accuracy.published import Published, rounds_to

TARGETS = (80, 90, 92, 95, 98, 99)
LOGGED: Published = {(*part, CHAIN): rounds_to(curve, TARGETS) for part, curve in LOGS.items()}
PUBLISHED: Published = TABLE_III
TITLES = {"mlp": "MLP", "cnn": "CNN", "iid": "IID", "shards": "non-IID"}


def table(curves: Sequence[Curve], published: Published) -> list[dict[str, Any]]:
    """Returns a row for each curve, with the rounds that others published of the same."""
    plain = {
        (one.experiment.model, one.experiment.partition): one
        for one in curves
        if one.experiment.method == FEDAVG
    }
    rows = []
    for curve in curves:
        one, history = curve.experiment, curve.history
        key = (one.model, one.partition)
        reached = rounds_to(curve.accuracies, TARGETS)
        row = {
            "model": TITLES[one.model],
            "parts": TITLES[one.partition],
            "method": one.method,
            "rounds": len(history),
            "accuracy, %": curve.accuracies[-1],
            **{f"rounds to {target} %": reached.get(target, "-") for target in TARGETS},
            "published": _told(published, one),
            "their logs": _told(LOGGED, one),
            "furthest from FedAvg": (
                _distance(curve, plain[key]) if one.method == CHAIN and key in plain else "-"
            ),
            "epsilon": "infinite" if curve.epsilon == float("inf") else curve.epsilon,
            "MB a round": statistics.mean(report.bytes_total for report in history) / 1e6,
            "virtual s a round": statistics.mean(report.virtual_seconds for report in history),
            "s a round": statistics.median(report.seconds for report in history),
        }
        rows.append(row)
    return rows


def _told(published: Published, one: Experiment) -> str:
    theirs = published.get((one.model, one.partition, one.method), {})
    return ", ".join(f"{target} %: {number}" for target, number in theirs.items()) or "-"


def _distance(curve: Curve, other: Curve) -> float:
    """The largest difference of two curves in any round of both, in percentage points."""
    pairs = zip(curve.accuracies, other.accuracies, strict=False)
    return max(abs(ours - theirs) for ours, theirs in pairs)


def sample(curve: Curve) -> dict[str, Any]:
    """Returns what the file keeps of a curve."""
    one = curve.experiment
    return {
        "model": one.model,
        "partition": one.partition,
        "method": one.method,
        "accuracies": curve.accuracies,
        "failed": {report.number: report.failure for report in curve.history if report.failure},
    }
