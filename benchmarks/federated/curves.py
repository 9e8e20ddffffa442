"""Runs of federated averaging on MNIST by model, partition and method."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

import fl
from benchmarks.federated.li2021 import PublishedLaplace
from benchmarks.federated.links import simulated
from benchmarks.federated.privacy.quick_noise import QuickLocalDP
from benchmarks.federated.records import mnist

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


@dataclass(frozen=True, kw_only=True)
class Curve:
    """What came of an experiment.

    Attributes:
        experiment: what was run.
        history: of its rounds, with the accuracy of each.
        epsilon: that the client selected most often has spent, at DELTA; infinite without noise.
    """

    experiment: Experiment
    history: fl.History
    epsilon: float

    @property
    def accuracies(self) -> list[float]:
        """Percent of the test records after each round."""
        return [100 * report.accuracy for report in self.history if report.accuracy is not None]


def run(experiment: Experiment) -> Curve:
    """Returns the curve of an experiment; masks and exact noise alone are not its seed's.

    A round that fails, since no client's update is finite, leaves the model as it is.
    """
    size, seed = experiment.size, experiment.seed
    train, (test_x, test_y) = mnist(experiment.data_dir, size.records)
    torch.manual_seed(seed)
    model = MODELS[experiment.model]()
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
    history = whole.fit(size.rounds, test, progress=False)
    return Curve(experiment=experiment, history=history, epsilon=whole.get_epsilon(DELTA))


def _mechanism(experiment: Experiment, model: torch.nn.Module) -> fl.Mechanism:
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
        return fl.Mechanism()
    if one.exact_noise:
        return fl.LocalDP(epsilon=OF_UPDATE[method], clip=one.clip, noise="laplace")
    return QuickLocalDP(epsilon=OF_UPDATE[method], clip=one.clip, noise="laplace", seed=one.seed)
