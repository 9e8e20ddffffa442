"""``python -m benchmarks columns``: a table whose columns lie with several owners."""

import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from benchmarks.benchmark import ACCURACY, Benchmark, Result
from benchmarks.defaults.subjects import subject
from benchmarks.tables import Table
from extensions.data.datasets import Split, common_facts, in_memory
from extensions.data.origin import FeatureExtraction, Origin
from extensions.options import Option
from extensions.rules import Whole
from extensions.runs.clear_training import train
from extensions.runs.config import CHOSEN, TrainConfig
from extensions.runs.hosts import find
from extensions.runs.options import RunOptions

USUAL = {"steps": 10, "sample_rate": 1.0, "momentum": 0.3, "average": 0.2}
"""Defaults of columns, which the undivided run takes too."""


@Benchmark(
    ACCURACY,
    "columns",
    "Columns of the same persons",
    minutes=2,
    results=[
        Result(
            "columns",
            "Adult, 26,049 persons and 113 features, in two and three blocks of its columns: "
            "accuracy in percent beside owners of whole rows with the same settings. Epsilon is "
            "for replaced records, at delta 1e-6. Seconds, MB and rounds are of one run of "
            "CrypTen's parties with a dealer on one machine, 10 steps.",
            columns="*",
        )
    ],
)
def main(seeds: Annotated[int, Option(help="Draws of noise."), Whole(1)] = 5) -> Iterator[Table]:
    """Accuracy of Adult in two and three blocks of columns, beside whole rows."""
    with tempfile.TemporaryDirectory() as folder:
        _, data, _, schema = subject("adult", Path(folder)).options
        origin = Origin(data=data, schema=Path(schema))
        sizes = [(epsilon, owners) for epsilon in (0.5, 2.0) for owners in (2, 3)]
        yield Table("columns", [_row(origin, *each, seeds) for each in sizes], seeds=seeds)


def _row(origin: Origin, epsilon: float, owners: int, seeds: int) -> dict[str, Any]:
    def trained(split: Any, backend: str = "clear", **more: Any) -> dict[str, Any]:
        raw = origin.read(owners, by_columns=split == "columns")
        parts = FeatureExtraction(features="raw").extract(raw, lambda *_: None)
        config = _config(parts, split=split, epsilon=epsilon, backend=backend, **more)
        if backend == "clear":
            found = [train(config, parts, lambda event: None)["accuracy"] for _ in range(seeds)]
            return {"accuracy": 100 * statistics.mean(found)}
        with in_memory(parts) as files:
            return find(backend).train(config, files, lambda event: None, RunOptions())

    whole, blocks = trained("rows")["accuracy"], trained("columns")["accuracy"]
    report = trained("columns", "crypten")
    return {
        "epsilon": epsilon,
        "owners": owners,
        "whole rows": whole,
        "columns": blocks,
        "difference": blocks - whole,
        "columns, own maps": trained("columns", whiten=True)["accuracy"],
        "seconds": report["seconds"],
        "MB a party": report["bytes_per_party"] / 1e6,
        "rounds": report["rounds"],
    }


def _config(parts: list[Split], **settings: Any) -> TrainConfig:
    known = parts[0].settings
    if settings["split"] == "columns":
        known["facts"] = common_facts(known["facts"])
    chosen = tuple({*CHOSEN} - {*USUAL, *settings})
    given = {**USUAL, **known, "delta": 1e-6, "parties": len(parts), "neighbours": "replace"}
    config = TrainConfig(**given, **settings, chosen=chosen)
    return config.resolved(records=config.records_of([part.drawn for part in parts]))
