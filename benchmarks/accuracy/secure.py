"""One full secure run with the tuned settings: what `pea train` does, and what it costs."""

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.accuracy.publishing import publish
from benchmarks.accuracy.records import Material, dealt
from benchmarks.accuracy.runs import summary
from benchmarks.accuracy.settings import tuned
from benchmarks.tables import BYTES
from extensions.cli import console
from extensions.owners.data import write_parts
from extensions.runs.hosts import Backend, find
from extensions.runs.options import RunOptions

OPTIONS = RunOptions(timeout=3600.0)


def run(material: Material, backend: str) -> None:
    """Time, rounds, bytes, accuracy and epsilon of one secure run for each seed."""
    setting = tuned(material.data, material.data_dir)
    features = material.features(setting)
    settings = setting.config(
        records=len(features.train_x),
        classes=material.classes,
        epsilon=material.epsilon,
        backend=backend,
        data=material.data,
    )
    engine = find(backend)
    columns = features.train_x.shape[1]
    config = settings.resolved(engine.noise_failure(settings, columns))
    load = os.getloadavg()[0]
    reports = [_once(config, features, engine) for _ in material.seeds]
    rows = [_row(material.data, backend, reports)]
    publish(
        f"secure-{backend}",
        material,
        rows,
        {"features": setting},
        backend=backend,
        bytes=f"{BYTES}; dealt: what the dealer sent and received",
        load_before=load,
        delta=config.delta,
        noise_multiplier=config.noise_multiplier,
        seconds=[report["seconds"] for report in reports],
    )


def _once(config: Any, features: Any, engine: Backend) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="pea-") as folder:
        files = write_parts(dealt(features), Path(folder))
        with console.progress(config) as show:
            return engine.train(config, files, show, OPTIONS)


def _row(data: str, backend: str, reports: list[dict[str, Any]]) -> dict[str, Any]:
    first = reports[0]
    return {
        "data": data,
        "host": {"crypten": "CrypTen", "tfe": "ABY3"}[backend],
        "epsilon": first["epsilon"],
        **summary([100 * report["accuracy"] for report in reports]),
        "steps": first["steps"],
        "rounds": first["rounds"],
        "GB/party": first["bytes_per_party"] / 1e9,
        "largest GB": first["bytes_of_largest_party"] / 1e9,
        "GB dealt": sum(first["dealt_bytes"]) / 1e9,
        "seconds": float(np.median([report["seconds"] for report in reports])),
    }
