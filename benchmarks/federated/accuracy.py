"""``python -m benchmarks fl-accuracy``: federated averaging, chains and Laplace noise on MNIST."""

import os
import statistics
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.federated.curves import (
    BATCH,
    CHAIN,
    CLIENT_FRACTION,
    CLIENTS,
    DELTA,
    FEDAVG,
    LINKS,
    LR,
    METHODS,
    MODELS,
    PARTITIONS,
    Curve,
    Experiment,
    Size,
    run,
)
from benchmarks.federated.li2021 import LOGS
from benchmarks.federated.pool import side_by_side
from benchmarks.federated.published import Published, read, rounds_to
from benchmarks.instruments.plots import Panel, draw
from benchmarks.tables import publish
from extensions.errors import ArgumentError

TARGETS = (80, 90, 95, 97, 99)
PAPERS = {
    "mlp": Size(rounds=100, local_epochs=5, records=60_000, test_every=1),
    "cnn": Size(rounds=50, local_epochs=5, records=60_000, test_every=1),
}
USUAL = {
    "mlp": replace(PAPERS["mlp"], rounds=40),
    "cnn": Size(rounds=15, local_epochs=2, records=12_000, test_every=5),
}
LOGGED = {(*part, CHAIN): rounds_to(curve, TARGETS) for part, curve in LOGS.items()}
TITLES = {"mlp": "MLP", "cnn": "CNN", "iid": "IID", "shards": "non-IID"}


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """How much work the runs are.

    Attributes:
        full: take the papers' sizes: hours.
        rounds: rounds of every run.
        local_epochs: local epochs of every run.
        records: number of records that are dealt out.

    Raises:
        ArgumentError: no work, or fewer than two records a client.
    """

    full: bool = False
    rounds: int | None = None
    local_epochs: int | None = None
    records: int | None = None

    def __post_init__(self) -> None:
        least = {"rounds": 1, "local_epochs": 1, "records": 2 * CLIENTS}
        for name, value in self.given.items():
            if value < least[name]:
                raise ArgumentError(name, value, f"at least {least[name]}")

    @property
    def given(self) -> dict[str, int]:
        """What differs from the usual sizes."""
        return {
            name: value
            for name, value in vars(self).items()
            if name != "full" and value is not None
        }

    def of(self, model: str) -> Size:
        """Returns the size of a model's runs."""
        return replace((PAPERS if self.full else USUAL)[model], **self.given)


@dataclass(frozen=True, kw_only=True)
class Learning:
    """What all runs share.

    Attributes:
        data_dir: folder of MNIST's files; by default mnist in the folder PEA_DATA.
        lr: learning rate of clients.
        clip: L1 norm of updates under Laplace noise.
        exact_noise: take the Laplace noise of fl.LocalDP: slow.
        seed: public seed of everything but masks.

    Raises:
        ArgumentError: a seed below 0.
    """

    data_dir: Path | None = None
    lr: float = LR
    clip: float = 0.01
    exact_noise: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise ArgumentError("seed", self.seed, "at least 0")


def main(
    sizes: Sizes,
    learning: Learning,
    model: Annotated[str | None, typer.Option(help="mlp or cnn alone.")] = None,
    partition: Annotated[str | None, typer.Option(help="iid or shards alone.")] = None,
    published: Annotated[
        Path | None,
        typer.Option(
            help="Other rounds than those of Li et al.'s logs, to put beside ours: JSON of "
            "{model: {partition: {method: {target: rounds}}}}."
        ),
    ] = None,
    workers: Annotated[int, typer.Option(help="Runs side by side.", min=1)] = 2,
) -> None:
    """Accuracy by round, and rounds to an accuracy: FedAvg, chain and Laplace noise."""
    models = _chosen("model", model, MODELS)
    partitions = _chosen("partition", partition, PARTITIONS)
    theirs = read(published, MODELS, PARTITIONS, METHODS, TARGETS) if published else LOGGED
    experiments = [
        Experiment(
            model=name, partition=dealt, method=method, size=sizes.of(name), **vars(learning)
        )
        for name in models
        for dealt in partitions
        for method in METHODS
    ]
    curves = side_by_side(run, [(one,) for one in experiments], workers)
    parts = ["full" if sizes.full else None, model, partition]
    parts += [f"{value}-{key.replace('_', '-')}" for key, value in sizes.given.items()]
    parts += [f"{learning.lr:g}-lr"] if learning.lr != LR else []
    name = "-".join(["fl-accuracy", *filter(None, parts)])
    publish(
        name,
        table(curves, theirs),
        samples=[sample(curve) for curve in curves],
        seed=learning.seed,
        clients=CLIENTS,
        client_fraction=CLIENT_FRACTION,
        batch=BATCH,
        lr=learning.lr,
        laplace_clip=learning.clip,
        laplace_noise="exact" if learning.exact_noise else "of the same law from the public seed",
        delta=DELTA,
        virtual_network=LINKS,
        sizes={key: asdict(sizes.of(key)) for key in models},
        sizes_of_papers={key: asdict(PAPERS[key]) for key in models},
        workers=workers,
        load=os.getloadavg()[0],
    )
    print(draw(name, panels(curves)))


def _chosen(name: str, given: str | None, known: Collection[str]) -> tuple[str, ...]:
    if given is None:
        return tuple(known)
    if given not in known:
        raise ArgumentError(name, given, f"one of {', '.join(known)}")
    return (given,)


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
        theirs = published.get((*key, one.method), {})
        row = {
            "model": TITLES[one.model],
            "parts": TITLES[one.partition],
            "method": one.method,
            "rounds": len(history),
            "accuracy, %": curve.accuracies[-1],
            **{f"rounds to {target} %": reached.get(target, "-") for target in TARGETS},
            "published": ", ".join(f"{t} %: {n}" for t, n in theirs.items()) or "-",
            "furthest from FedAvg": _distance(curve, plain[key]) if one.method == CHAIN else "-",
            "epsilon": "infinite" if curve.epsilon == float("inf") else curve.epsilon,
            "MB a round": statistics.mean(report.bytes_total for report in history) / 1e6,
            "virtual s a round": statistics.mean(report.virtual_seconds for report in history),
            "s a round": statistics.median(report.seconds for report in history),
        }
        rows.append(row)
    return rows


def _distance(curve: Curve, other: Curve) -> float:
    """The largest difference of two curves in any round, in percentage points."""
    pairs = zip(curve.accuracies, other.accuracies, strict=True)
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


def panels(curves: Sequence[Curve]) -> list[Panel]:
    """Returns a panel for each model and partition, with a curve for each method."""
    together: dict[tuple[str, str], dict[str, list[float]]] = {}
    for curve in curves:
        one = curve.experiment
        together.setdefault((one.model, one.partition), {})[one.method] = curve.accuracies
    return [
        Panel(
            title=f"{TITLES[model]}, {TITLES[partition]}",
            x_label="round",
            y_label="accuracy, %",
            x=range(1, len(ways[FEDAVG]) + 1),
            curves=ways,
            logarithmic=False,
        )
        for (model, partition), ways in together.items()
    ]
