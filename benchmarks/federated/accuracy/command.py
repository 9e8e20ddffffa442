"""``python -m benchmarks fl-accuracy``: federated averaging, chains and Laplace noise on MNIST."""

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated

import torch

from benchmarks.benchmark import FEDERATED, Benchmark, Result
from benchmarks.federated.accuracy.experiments import (
    BATCH,
    CLIENT_FRACTION,
    CLIENTS,
    DELTA,
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
from benchmarks.federated.accuracy.table import PUBLISHED, TARGETS, Published, read, sample, table
from benchmarks.federated.pool import side_by_side
from benchmarks.tables import Table
from extensions.errors import ArgumentError
from extensions.options import Option
from extensions.rules import Whole, check_fields, one_of

SECONDS = 60


@dataclass(frozen=True, kw_only=True)
class Sitting:
    """How much of long runs is done now.

    Attributes:
        keep: folder in which every run is kept after each of its rounds, and from which it goes on.
        minutes: no round begins later; the rest is for a next time. Needs a folder to keep it.

    Raises:
        ArgumentError: no time, or a time without a folder.
    """

    keep: Path | None = None
    minutes: float | None = None

    def __post_init__(self) -> None:
        if self.minutes is None:
            return
        if not self.minutes > 0.0:
            raise ArgumentError("minutes", self.minutes, "above 0", code="range")
        if self.keep is None:
            raise ArgumentError("minutes", self.minutes, "without {keep}", code="conflict")

    def ends(self) -> float:
        """Returns the time of day, in seconds of the system's clock, at which a new one ends."""
        return float("inf") if self.minutes is None else time.time() + SECONDS * self.minutes

    def file(self, *names: str) -> Path | None:
        """Returns the file of a run of these names; None: it is not kept."""
        if self.keep is None:
            return None
        self.keep.mkdir(parents=True, exist_ok=True)
        return self.keep / f"{'-'.join(names)}.npz"


ROUNDS = 210
"""Most of a run at the papers' sizes."""
PAPERS = {
    "mlp": Size(rounds=ROUNDS, local_epochs=5, records=60_000, test_every=1),
    "cnn": Size(rounds=ROUNDS, local_epochs=5, records=60_000, test_every=1),
}
USUAL = {
    "mlp": replace(PAPERS["mlp"], rounds=40),
    "cnn": Size(rounds=15, local_epochs=2, records=12_000, test_every=5),
}


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
    rounds: Annotated[int | None, Whole(1)] = None
    local_epochs: Annotated[int | None, Whole(1)] = None
    records: Annotated[int | None, Whole(2 * CLIENTS)] = None

    def __post_init__(self) -> None:
        check_fields(self)

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
        device: torch's name of the device on which models are trained and tested.

    Raises:
        ArgumentError: a seed below 0, or a device that torch does not find.
    """

    data_dir: Path | None = None
    lr: float = LR
    clip: float = 0.01
    exact_noise: bool = False
    seed: Annotated[int, Whole(0)] = 0
    device: str = "cpu"

    def __post_init__(self) -> None:
        check_fields(self)
        try:
            torch.zeros(1, device=self.device)
        except (RuntimeError, AssertionError) as error:
            rule, hint = "a device that torch finds here", "Take {device=cpu}."
            raise ArgumentError("device", self.device, rule, hint) from error


@Benchmark(
    FEDERATED,
    "fl-accuracy",
    "FedAvg, chain and Laplace noise",
    minutes=45,
    needs="MNIST in PEA_DATA",
    results=[
        Result(
            "fl-accuracy",
            "Rounds to an accuracy on MNIST, beside Table III of Li et al. The chain needs as "
            "many rounds as FedAvg; Laplace noise of their code is free up to 95 or 92 % at "
            "epsilon 8.",
            columns="model | parts | method | accuracy, % | rounds to 80 % | rounds to 90 % | "
            "rounds to 95 % | published",
            where="model = MLP",
        ),
        Result(
            "fl-accuracy-full(-.*)?",
            "At the papers' sizes: **both need 26 rounds to 99 % with even parts, where the table "
            "says 100, and 50 to 98 % with shards, where it says 120**.",
            options="--full --model cnn --method FedAvg --method chain",
            columns="model | parts | method | rounds | accuracy, % | rounds to 95 % | rounds to "
            "98 % | rounds to 99 % | published",
        ),
        Result(
            "fl-accuracy-.*",
            "At the learning rate of their logs, an MLP of 50 rounds.",
            options="--model mlp --rounds 50 --lr 0.01",
        ),
    ],
)
def main(
    sizes: Sizes,
    learning: Learning,
    sitting: Sitting,
    model: Annotated[str | None, Option(help="Only mlp or cnn."), one_of(MODELS)] = None,
    partition: Annotated[str | None, Option(help="Only iid or shards."), one_of(PARTITIONS)] = None,
    method: Annotated[
        list[str] | None,
        Option(help="Only FedAvg, chain or another one; once for each."),
        one_of(METHODS),
    ] = None,
    published: Annotated[
        Path | None,
        Option(
            help="Other rounds than Table III of Li et al. to put beside ours: JSON of "
            "{model: {partition: {method: {target: rounds}}}}."
        ),
    ] = None,
    workers: Annotated[int, Option(help="Runs side by side."), Whole(1)] = 2,
) -> Iterator[Table]:
    """Accuracy by round, and rounds to an accuracy: FedAvg, chain and Laplace noise.

    With --full a run ends at the last published accuracy of its model and parts.
    """
    theirs = read(published, MODELS, PARTITIONS, METHODS, TARGETS) if published else PUBLISHED
    shared = {**vars(learning), "ends": sitting.ends()}
    experiments = [
        Experiment(
            model=name,
            partition=dealt,
            method=way,
            size=sizes.of(name),
            until=last_target(theirs, name, dealt) if sizes.full else None,
            kept=sitting.file(name, dealt, way),
            **shared,
        )
        for name in ([model] if model else MODELS)
        for dealt in ([partition] if partition else PARTITIONS)
        for way in method or METHODS
    ]
    curves = side_by_side(run, [(one,) for one in experiments], workers)
    curves = [curve for curve in curves if len(curve.history)]
    parts = ["full" if sizes.full else None, model, partition, *(method or [])]
    parts += [f"{value}-{key.replace('_', '-')}" for key, value in sizes.given.items()]
    parts += [f"{learning.lr:g}-lr"] if learning.lr != LR else []
    yield _table("-".join(["fl-accuracy", *filter(None, parts)]), curves, theirs, learning, workers)


def _table(
    name: str, curves: Sequence[Curve], theirs: Published, learning: Learning, workers: int
) -> Table:
    """The table of runs that have a round or more."""
    sizes = {curve.experiment.model: curve.experiment.size for curve in curves}
    return Table(
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
        sizes={key: asdict(size) for key, size in sizes.items()},
        sizes_of_papers={key: asdict(PAPERS[key]) for key in sizes},
        workers=workers,
        device=learning.device,
        load=os.getloadavg()[0],
    )


def last_target(published: Published, model: str, partition: str) -> int | None:
    """Returns the highest published accuracy of a model and parts, in percent; None: none is."""
    reached = [
        target
        for (name, dealt, _), rounds in published.items()
        if (name, dealt) == (model, partition)
        for target in rounds
    ]
    return max(reached, default=None)
