"""Full secure runs with the tuned settings: what `pea train` does, and what it costs."""

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.accuracy.publishing import against_costs, publish
from benchmarks.accuracy.records import Material, dealt
from benchmarks.accuracy.runs import summary
from benchmarks.accuracy.settings import ways
from benchmarks.accuracy.ways import EPSILONS
from benchmarks.tables import BYTES
from extensions.cli import console
from extensions.owners.data import write_parts
from extensions.runs.hosts import Backend, find
from extensions.runs.options import RunOptions

OPTIONS = RunOptions(timeout=3600.0)


def run(material: Material, backend: str) -> None:
    """Time, rounds, bytes, accuracy and epsilon of each way to learn, a run for each seed.

    The table is written anew with each row, so that what was measured is kept if a run ends; way
    by way, so that what is kept has every epsilon of a way.
    """
    engine = find(backend)
    rows: list[dict[str, Any]] = []
    seconds: dict[str, list[float]] = {}
    loads = {}
    for way in ways(material.data, EPSILONS[0]):
        for epsilon in EPSILONS:
            setting = ways(material.data, epsilon)[way]
            features = material.features(setting)
            settings = setting.config(
                records=len(features.train_x),
                classes=material.classes,
                epsilon=epsilon,
                backend=backend,
                data=material.data,
            )
            if not settings.hidden and backend != "crypten":
                continue  # one program has all records there
            columns = features.train_x.shape[1]
            config = settings.resolved(engine.noise_failure(settings, columns))
            run_of_all = f"{way}, {epsilon:g}"
            loads[run_of_all] = os.getloadavg()[0]
            reports = [_once(config, features, engine) for _ in material.seeds]
            rows.append(_row(material.data, backend, way, reports))
            seconds[run_of_all] = [report["seconds"] for report in reports]
            name = publish(
                f"secure-{backend}",
                material,
                rows,
                ways(material.data, EPSILONS[0]),
                backend=backend,
                epsilon=EPSILONS,
                bytes=f"{BYTES}; dealt: what the dealer sent and received",
                loads_before=loads,
                seconds=seconds,
            )
    against_costs(name, rows, ("rounds", "GB/party"))


def _once(config: Any, features: Any, engine: Backend) -> dict[str, Any]:
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
