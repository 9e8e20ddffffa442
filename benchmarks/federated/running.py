"""Runs of federated averaging on MNIST that differ by their mechanism, several at once."""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from threadpoolctl import threadpool_limits
from torch import nn

import fl
from benchmarks.federated.pool import side_by_side
from benchmarks.federated.records import mnist
from extensions.rules import Whole
from fl.protocols import History, Mechanism

DELTA = 1e-3
FRACTION = 0.1
"""Share of the clients in a round."""
MODELS: dict[str, Callable[[], nn.Module]] = {
    "mlp": functools.partial(fl.models.mlp, hidden=32),
    "cnn": fl.models.cnn_mnist,
    "2nn": fl.models.mlp,
}
"""Multilayer perceptrons of 26,506 and 199,210 parameters, and the CNN of 21,840."""


@dataclass(frozen=True, kw_only=True)
class Size:
    """How much work every run is.

    Attributes:
        model: a key of MODELS.
        rounds: how many.
        epochs: of a client in a round.
        batch_size: records of a local step.
        lr: learning rate of local steps.
    """

    model: str
    rounds: int
    epochs: int
    batch_size: int
    lr: float


PAPERS = Size(model="cnn", rounds=100, epochs=5, batch_size=10, lr=0.1)
"""Local training of McMahan et al., AISTATS 2017."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """How a run differs from others; by default federated averaging without privacy."""

    clients: int

    def mechanism(self) -> Mechanism:
        """Returns a new mechanism, whose noise is no seed's."""
        return Mechanism()


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run: all rounds with their accuracies, and the mechanism with its ledger."""

    history: History
    mechanism: Mechanism

    @property
    def accuracies(self) -> list[float]:
        """Percent of the test records after each round."""
        return [100 * (report.accuracy or 0.0) for report in self.history]


Runs = Mapping[Setting, Sequence[Run]]
"""The runs of each setting, one a seed."""


def perform(
    settings: Iterable[Setting], size: Size, *, data_dir: Path | None, seeds: int, workers: int
) -> Runs:
    """Returns the runs of all settings, of equal ones once; shows how many are done.

    Seeds decide all but noise and what mechanisms select. Workers above 1 are processes, each on
    one thread.

    Raises:
        ArgumentError: no MNIST in `data_dir`, or more clients than records.
    """
    (_, labels), _ = mnist(data_dir)
    distinct = list(dict.fromkeys(settings))
    for one in distinct:
        Whole(1, len(labels)).check("clients", one.clients)
    jobs = [(setting, seed) for setting in distinct for seed in range(seeds)]
    results = side_by_side(_run, [(one, size, data_dir, seed) for one, seed in jobs], workers)
    return {one: results[i * seeds : (i + 1) * seeds] for i, one in enumerate(distinct)}


def _run(setting: Setting, size: Size, data_dir: Path | None, seed: int) -> Run:
    """Returns one run; seed is that of partition, model, selection and batches.

    A round in which no client has a finite update leaves the model as it is.
    """
    train, test = mnist(data_dir)
    torch.manual_seed(seed)
    mechanism = setting.mechanism()
    run = fl.FederatedAveraging(
        model=MODELS[size.model](),
        clients=fl.partition(train, setting.clients, seed=seed),
        aggregator=fl.PlainAggregator(),
        mechanism=mechanism,
        client_fraction=FRACTION,
        local_epochs=size.epochs,
        batch_size=size.batch_size,
        lr=size.lr,
        weighting="equal",
        on_failure="skip",
        seed=seed,
    )
    with threadpool_limits(1):
        history = run.fit(size.rounds, test, progress=False)
    return Run(history=history, mechanism=mechanism)
