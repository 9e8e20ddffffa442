"""The command `dpsgd-train`: whole runs, secure and in plaintext, with privacy and without."""

import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from benchmarks.benchmark import TRAINING, Benchmark, Chart, Result
from benchmarks.instruments.hosts import ABY3, CRYPTEN, GLOO
from benchmarks.network.calibration import current
from benchmarks.tables import BYTES, Table, dates, published
from extensions.cli import console
from extensions.data.datasets import write_parts
from extensions.data.features import RAW
from extensions.data.origin import FeatureExtraction, Origin
from extensions.options import Option, Options
from extensions.rules import Whole, one_of
from extensions.runs.config import TrainConfig
from extensions.runs.hosts import find_for
from extensions.runs.options import RunOptions

ABY3_SERVERS = 3
BACKENDS: dict[str, str] = {
    CRYPTEN: "crypten",
    GLOO: "crypten",
    ABY3: "tfe",
    "plaintext": "clear",
}
_NOT_READ = ("own", "download", "columns", "names", "partition", "seed")
_AS_USUAL = ("weights", "keep", "max_feature_norm")


def kinds_of(private: TrainConfig) -> dict[str, TrainConfig]:
    """Returns the runs to compare, by name, from the settings of the private run in CrypTen.

    ABY3's servers are devices of one process here, between which no emulated network lies.
    """
    plain = replace(private, private=False, epsilon=None, delta=None)
    kinds = {}
    in_one_process = private.parties == ABY3_SERVERS and current() is None
    for title, backend in BACKENDS.items():
        if backend != "tfe" or in_one_process:
            kinds[f"{title}, private"] = replace(private, backend=backend)
            kinds[f"{title}, not private"] = replace(plain, backend=backend)
    return kinds


def run(name: str, config: TrainConfig, files: Sequence[Path]) -> dict[str, Any]:
    """Returns the report of one run of `kinds_of`, with "step_seconds" and without the model."""
    options = RunOptions(timeout=600.0, transport="gloo" if name.startswith(GLOO) else "tls")
    ticks: list[float] = []
    with console.progress(config) as show:

        def after_step(event: dict[str, Any]) -> None:
            ticks.append(time.perf_counter())
            show(event)

        report = find_for(config).train(config, files, after_step, options)
    seconds = [after - before for before, after in zip(ticks[:-1], ticks[1:], strict=True)]
    return {**report, "parameters": None, "header": None, "step_seconds": seconds}


def row_of(name: str, reports: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Returns the row of runs that differ in their randomness only."""
    accuracies = [100 * report["accuracy"] for report in reports]
    first = reports[0]
    steps = [seconds for report in reports for seconds in report["step_seconds"]]
    return {
        "run": name,
        "epsilon": first["epsilon"] or "infinite",
        "accuracy, %": statistics.mean(accuracies),
        "standard deviation": statistics.stdev(accuracies) if len(reports) > 1 else 0.0,
        "steps": first["steps"],
        "rounds": first["rounds"],
        "MB/party": first["bytes_per_party"] / 1e6,
        "largest MB": first["bytes_of_largest_party"] / 1e6,
        "MB dealt": sum(first["dealt_bytes"]) / 1e6,
        "median ms/step": 1000 * statistics.median(steps),
        "seconds": statistics.median(report["seconds"] for report in reports),
    }


@dataclass(frozen=True, kw_only=True)
class Privacy:
    """The private runs.

    Attributes:
        epsilon: target epsilon of each.
        delta: delta of each.
        sample_rate: Poisson rate at which a step samples each record.
        steps: updates of each run, at least 2.
        lr: learning rate.
    """

    epsilon: float = 2.0
    delta: float = 1e-5
    sample_rate: float = TrainConfig.sample_rate
    steps: int = TrainConfig.steps
    lr: float = TrainConfig.lr


@Benchmark(
    TRAINING,
    "dpsgd-train",
    "Whole runs",
    minutes=6,
    results=[
        Result(
            r"training-\w+-\d+-parties",
            "The digits, 1,437 training records and 360 held out; seconds are of the whole run, "
            "from starting the processes or tracing the graph to the accuracy.",
            columns="run | epsilon | accuracy, % | standard deviation | steps | rounds | MB/party "
            "| MB dealt | median ms/step | seconds",
            chart=Chart(
                of="training-digits-3-parties",
                labels=("run",),
                values=("accuracy, %", "seconds"),
                logarithmic=("seconds",),
                ours="^(CrypTen|ABY3).*, private",
            ),
        )
    ],
)
def main(
    privacy: Privacy,
    origin: Annotated[Origin, Options(without=_NOT_READ)],
    extraction: Annotated[FeatureExtraction, Options(without=_AS_USUAL)],
    seeds: Annotated[int, Option(help="Runs of each kind, with fresh noise.")] = 3,
    parties: int = TrainConfig.parties,
    kind: Annotated[list[str] | None, Option(help="A run of the table; may be repeated.")] = None,
) -> Iterator[Table]:
    """Accuracy, epsilon, rounds, bytes and time of training, beside plain SGD and plaintext.

    With --kind the others stay in the table as they were recorded before with the same settings.
    """
    Whole(2).check("steps", privacy.steps)
    data, features = origin.title, extraction.features or RAW
    with console.extracting() as show:
        parts = extraction.extract(origin.read(parties), show)
    private = TrainConfig(parties=parties, data=data, features=features, **vars(privacy))
    kinds = kinds_of(private)
    for each in kind or ():
        one_of(kinds).check("kind", each)
    title, same = f"training-{data}-{parties}-parties", {"seeds": seeds, "lr": privacy.lr}
    before = published(title, **same, sample_rate=privacy.sample_rate, features=features)
    samples: dict[str, list[dict[str, Any]]] = dict(before.get("samples", {}))
    recorded = dates(before)
    with tempfile.TemporaryDirectory() as folder:
        files = write_parts(parts, Path(folder))
        for name in kind or kinds:
            width, asked = parts[0].train_x.shape[1], kinds[name]
            config = asked.resolved(find_for(asked).noise_failure(asked, width))
            samples[name] = [run(name, config, files) for _ in range(seeds)]
            recorded[name] = datetime.now(UTC).date().isoformat()
    samples = {name: samples[name] for name in kinds if name in samples}
    yield Table(
        title,
        [row_of(name, reports) for name, reports in samples.items()],
        samples=samples,
        recorded=recorded,
        seeds=seeds,
        seed="the operating system's, but for the public split of the data, 0",
        parties=parties,
        network="loopback",
        transport="CrypTen's parties speak TLS 1.3, but where gloo is said",
        bytes=f"{BYTES}; dealt: what the dealer sent and received",
        data=data,
        features=features,
        sample_rate=privacy.sample_rate,
        lr=privacy.lr,
        records=sum(len(part.train_x) for part in parts),
        columns=parts[0].train_x.shape[1],
    )
