"""Runs of federated averaging on MNIST by model, partition and method."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

import fl
from benchmarks.federated.accuracy.li2021 import PublishedLaplace
from benchmarks.federated.links import simulated
from benchmarks.federated.privacy.quick_noise import QuickLocalDP
from benchmarks.federated.records import mnist
from fl.protocols import History, Mechanism

CLIENTS = 100
CLIENT_FRACTION = 0.1
BATCH = 10
LR = 0.1
DELTA = 1e-5
LINKS = "wan"

FEDAVG, CHAIN = "FedAvg", "chain"
OF_UPDATE = {f"Laplace, epsilon {epsilon:g}": epsilon for epsilon in (8.0, 1.0)}
AS_PUBLISHED = {f"{name}, as published": epsilon for name, epsilon in OF_UPDATE.items()}
METHODS = (FEDAVG, CHAIN, *OF_UPDATE, *AS_PUBLISHED)
MODELS: dict[str, Callable[[], torch.nn.Module]] = {"mlp": fl.models.mlp, "cnn": fl.models.cnn}
PARTITIONS = ("iid", "shards")


@dataclass(frozen=True, kw_only=True)
class Size:
    """How much work a run is.

    Attributes:
        rounds: of federated averaging.
        local_epochs: E.
        records: of the training set that are dealt out.
        test_every: one in so many test records judges the model.
    """

    rounds: int
    local_epochs: int
    records: int
    test_every: int


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One run.

    Attributes:
        model: a key of MODELS.
        partition: one of PARTITIONS.
        method: one of METHODS.
        size: how much work it is.
        lr: learning rate of clients.
        seed: of everything but masks: partition, model, selection, batches, noise.
        clip: bound of an update's L1 norm, under the Laplace noise of `fl.LocalDP`.
        exact_noise: noise of `fl.LocalDP` rather than a seeded stand-in.
        data_dir: folder of MNIST's files; None: where `mnist` looks for them.
        device: of torch, on which models are trained and tested.
        until: accuracy in percent that ends the run; None: it has all its rounds.
        kept: file in which it is kept after each round, and from which it goes on.
        ends: time of day in seconds, after which no round begins.
    """

    model: str
    partition: str
    method: str
    size: Size
    lr: float
    seed: int
    clip: float
    exact_noise: bool
    data_dir: Path | None
    device: str = "cpu"
    until: float | None = None
    kept: Path | None = None
    ends: float = math.inf

    def lasts(self, history: History) -> bool:
        """Returns whether the run has rounds left, after those of the history."""
        done = len(history) >= self.size.rounds or time.time() >= self.ends
        reached = self.until is not None and history.rounds_to(self.until / 100) is not None
        return not done and not reached


@dataclass(frozen=True, kw_only=True)
class Curve:
    """What came of an experiment.

    Attributes:
        experiment: what was run.
        history: of its rounds, with the accuracy of each.
        epsilon: that the client selected most often has spent, at DELTA; infinite without noise.
    """

    experiment: Experiment
    history: History
    epsilon: float

    @property
    def accuracies(self) -> list[float]:
        """Percent of the test records after each round."""
        return [100 * report.accuracy for report in self.history if report.accuracy is not None]


def run(experiment: Experiment) -> Curve:
    """Returns the curve of an experiment; masks and exact noise alone are not its seed's.

    A round that fails, since no client's update is finite, leaves the model as it is.

    Raises:
        ArgumentError: what is kept in the experiment's file is of another one.
    """
    size, seed = experiment.size, experiment.seed
    train, (test_x, test_y) = mnist(experiment.data_dir, size.records)
    torch.manual_seed(seed)
    model = MODELS[experiment.model]().to(experiment.device)
    mechanism = _mechanism(experiment, model)
    whole = fl.FederatedAveraging(
        model=model,
        clients=fl.partition(train, CLIENTS, experiment.partition, seed=seed),
        aggregator=fl.ChainAggregator() if experiment.method == CHAIN else fl.PlainAggregator(),
        mechanism=mechanism,
        exchange=mechanism.exchange or "delta",
        client_fraction=CLIENT_FRACTION,
        local_epochs=size.local_epochs,
        batch_size=BATCH,
        lr=experiment.lr,
        network=simulated(LINKS),
        on_failure="skip",
        seed=seed,
    )
    test = test_x[:: size.test_every], test_y[:: size.test_every]
    kept = experiment.kept
    if kept is not None and kept.exists():
        whole.load(kept)
    while experiment.lasts(whole.history):
        whole.fit(1, test, checkpoint=kept, progress=False)
    epsilon = whole.get_epsilon(DELTA)
    return Curve(experiment=experiment, history=whole.history, epsilon=epsilon)


def _mechanism(experiment: Experiment, model: torch.nn.Module) -> Mechanism:
    one, method, size = experiment, experiment.method, experiment.size
    if method in AS_PUBLISHED:
        return PublishedLaplace(
            model,
            epsilon=AS_PUBLISHED[method],
            rounds=size.rounds,
            local_epochs=size.local_epochs,
            seed=one.seed,
        )
    if method not in OF_UPDATE:
        return Mechanism()
    if one.exact_noise:
        return fl.LocalDP(epsilon=OF_UPDATE[method], clip=one.clip, noise="laplace")
    return QuickLocalDP(epsilon=OF_UPDATE[method], clip=one.clip, noise="laplace", seed=one.seed)
