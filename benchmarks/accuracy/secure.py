"""Full secure runs with the tuned settings: what `pea train` does, and what it costs."""

import json
import os
import tempfile
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import tables
from benchmarks.accuracy.records import Material, dealt
from benchmarks.accuracy.runs import shown, summary, table
from benchmarks.accuracy.settings import Setting, ways
from benchmarks.tables import Table
from extensions.cli import console
from extensions.data.datasets import Split, write_parts
from extensions.errors import ArgumentError
from extensions.rules import one_of
from extensions.runs.config import TrainConfig
from extensions.runs.hosts import Backend, find
from extensions.runs.options import RunOptions

EPSILONS = (2.0, 1.0, 0.5)
OPTIONS = RunOptions(timeout=3600.0)
_AT = " at epsilon "


def run(
    material: Material, backend: str, only: Collection[str] = (), *, missing: bool = False
) -> Iterator[Table]:
    """Time, rounds, bytes, accuracy and epsilon of each way to learn, a run for each seed.

    The table is written anew with each row, so that what was measured is kept if a run ends.

    Args:
        material: the records.
        backend: host of the runs.
        only: titles of the ways to measure, or "TITLE, EPSILON", all by default; what was published
            of others stays.
        missing: what was published of these ways with today's settings stays too.

    Raises:
        ArgumentError: these data have no such way.
    """
    engine = find(backend)
    known = ways(material.data, EPSILONS[0])
    titles = list(known)
    wanted = [run for name in only or titles for run in _runs(name, titles)]

    def kept(way: str, epsilon: float, setting: dict[str, Any]) -> bool:
        if (way, epsilon) in wanted:
            return missing and setting == shown(known[way])
        return way in titles

    rows, settings, loads, seconds = _published(f"secure-{backend}", material.data, kept)
    there = {(row["way"], _target(row)) for row in rows}
    for way, epsilon in wanted:
        setting = ways(material.data, epsilon)[way]
        hidden = setting.open == "never" and setting.method == "pea"
        if (way, epsilon) in there or not (hidden or backend == "crypten"):
            continue  # one program has all records in ABY3 if the model is open
        features = material.features(setting)
        run_of_all = f"{way}, {epsilon:g}"
        config = _config(material, setting, features, epsilon, backend)
        loads[run_of_all] = os.getloadavg()[0]
        reports = [_once(config, features, engine) for _ in material.seeds]
        rows.append(_row(material.data, backend, way, reports))
        rows.sort(key=lambda row: (titles.index(row["way"]), -row["epsilon"]))
        settings |= {way: known[way], **_others(material.data, way)}
        seconds[run_of_all] = [report["seconds"] for report in reports]
        yield table(
            f"secure-{backend}",
            material,
            rows,
            settings,
            backend=backend,
            epsilon=EPSILONS,
            bytes=f"{tables.BYTES}; dealt: what the dealer sent and received",
            loads_before=loads,
            seconds=seconds,
        )


def _runs(name: str, titles: Collection[str]) -> list[tuple[str, float]]:
    """The ways and epsilons that a name on the command line means."""
    runs = {f"{way}, {epsilon:g}": (way, epsilon) for way, epsilon in product(titles, EPSILONS)}
    if name in titles:
        return [run for run in runs.values() if run[0] == name]
    if name not in runs:
        rule = f"{one_of(titles)}, or one with ', 2' (epsilon)"
        raise ArgumentError("way", name, rule, code="choice")
    return [runs[name]]


def _config(
    material: Material, setting: Setting, features: Split, epsilon: float, backend: str
) -> TrainConfig:
    """Returns the resolved settings of a run."""
    own = setting.config(
        records=len(features.train_x),
        classes=material.classes,
        epsilon=epsilon,
        backend=backend,
        data=material.data,
    )
    return own.resolved(find(backend).noise_failure(own, features.train_x.shape[1]))


def _published(
    experiment: str, data: str, kept: Callable[[str, float, dict[str, Any]], bool]
) -> tuple[list[dict[str, Any]], dict[str, Any], dict[str, float], dict[str, list[float]]]:
    """Rows, settings, loads and seconds as they were published, of each row that is `kept`."""
    file = tables.RESULTS / f"accuracy-{experiment}-{data}.json"
    content = json.loads(file.read_text()) if file.exists() else {"rows": []}
    found = content.get("settings", {})
    tuned = found.get("tuned", {})
    rows = [
        row
        for row in content["rows"]
        if row["way"] in tuned and kept(row["way"], _target(row), tuned[row["way"]])
    ]
    ways_kept = {row["way"] for row in rows}
    settings = {
        title: each for title, each in tuned.items() if title.partition(_AT)[0] in ways_kept
    }
    runs = {f"{row['way']}, {_target(row):g}" for row in rows}
    loads, seconds = (
        {run: each for run, each in found.get(name, {}).items() if run in runs}
        for name in ("loads_before", "seconds")
    )
    return rows, settings, loads, seconds


def _others(data: str, way: str) -> dict[str, Setting]:
    """Those settings of a way that differ from its first epsilon's in more than the rate."""
    first = ways(data, EPSILONS[0])[way]
    each = {epsilon: ways(data, epsilon)[way] for epsilon in EPSILONS[1:]}
    return {
        f"{way}{_AT}{epsilon:g}": setting
        for epsilon, setting in each.items()
        if replace(setting, lr=first.lr) != first
    }


def _target(row: dict[str, Any]) -> float:
    """The epsilon that was asked for, of which a run spends a little less."""
    return min(EPSILONS, key=lambda epsilon: abs(epsilon - row["epsilon"]))


def _once(config: TrainConfig, features: Split, engine: Backend) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="pea-") as folder:
        files = write_parts(dealt(features), Path(folder))
        with console.progress(config) as show:
            return engine.train(config, files, show, OPTIONS)


def _row(data: str, backend: str, way: str, reports: list[dict[str, Any]]) -> dict[str, Any]:
    first = reports[0]
    return {
        "data": data,
        "host": {"crypten": "CrypTen", "tfe": "ABY3"}[backend],
        "way": way,
        "epsilon": first["epsilon"],
        **summary([100 * report["accuracy"] for report in reports]),
        "steps": first["steps"],
        "rounds": first["rounds"],
        "GB/party": first["bytes_per_party"] / 1e9,
        "largest GB": first["bytes_of_largest_party"] / 1e9,
        "GB dealt": sum(first["dealt_bytes"]) / 1e9,
        "seconds": float(np.median([report["seconds"] for report in reports])),
    }
