"""Tables of curves."""

import json
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.federated.accuracy.experiments import CHAIN, FEDAVG, Curve, Experiment
from benchmarks.federated.accuracy.li2021 import LOGS, TABLE_III
from extensions.errors import ArgumentError
from extensions.rules import Whole, one_of

Published = Mapping[tuple[str, str, str], Mapping[int, int]]
"""Rounds by target accuracy in percent, by model, partition and method."""


def rounds_to(accuracies: Sequence[float], targets: Iterable[int]) -> dict[int, int]:
    """Returns the first round of at least a target, of the targets that are reached."""
    first = {
        target: next((n for n, found in enumerate(accuracies, start=1) if found >= target), None)
        for target in targets
    }
    return {target: number for target, number in first.items() if number is not None}


def read(
    path: Path,
    models: Collection[str],
    partitions: Collection[str],
    methods: Collection[str],
    targets: Collection[int],
) -> Published:
    """Returns what a JSON file has: ``{model: {partition: {method: {target: rounds}}}}``.

    Raises:
        ArgumentError: no such file, or one of another form, or a name or target that is none of
            those given.
    """
    found: dict[tuple[str, str, str], dict[int, int]] = {}
    for model, parts in _object(_content(path), "model", models).items():
        for partition, ways in _object(parts, "partition", partitions).items():
            for method, rounds in _object(ways, "method", methods).items():
                texts = [str(target) for target in targets]
                found[model, partition, method] = {
                    int(target): _count(number)
                    for target, number in _object(rounds, "target", texts).items()
                }
    return found


def _content(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        rule = "a JSON file that can be read"
        raise ArgumentError("published", path.name, rule, code="file") from error


def _object(value: Any, name: str, allowed: Collection[str]) -> dict[str, Any]:
    if not isinstance(value, dict):
        rule = f"an object of {', '.join(allowed)}"
        raise ArgumentError(f"published: {name}", value, rule, code="file")
    for key in value:
        one_of(allowed).check(f"published: {name}", key)
    return value


def _count(number: Any) -> int:
    Whole(1).check("published: rounds", number)
    return int(number)


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
