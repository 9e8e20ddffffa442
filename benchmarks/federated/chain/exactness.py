"""What it means that a chain's mean is FedAvg's up to fixed point, in one round and in many."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

import fl
from benchmarks.federated.accuracy.published import rounds_to
from benchmarks.federated.records import mnist
from fl.training.weights import get_weights

CLIENTS, FRACTION, BATCH, EPOCHS, LR = 100, 0.1, 10, 5, 0.1
TARGETS = (80, 90, 92, 95)
FEDAVG = "FedAvg"
UNIT = 2.0**-24
"""Of the fixed point."""


class Jitter(fl.Mechanism):
    """Moves every value by up to half a unit of the fixed point: FedAvg, rounded otherwise."""

    exchange = "delta"

    def client(self, update: fl.Vector, round: fl.Round, client: int) -> fl.Vector:
        """Returns the update, moved."""
        draws = np.random.default_rng([round.number, client])
        return update + draws.uniform(-UNIT / 2, UNIT / 2, update.size)


WAYS: dict[str, tuple[Callable[[], fl.Aggregator], Callable[[], fl.Mechanism]]] = {
    FEDAVG: (fl.PlainAggregator, fl.Mechanism),
    "chain": (fl.ChainAggregator, fl.Mechanism),
    "chain, 32 bits": (
        lambda: fl.ChainAggregator(fl.FixedPoint(bits=32, frac_bits=16, clip=8.0)),
        fl.Mechanism,
    ),
    "FedAvg, moved by half a unit": (fl.PlainAggregator, Jitter),
}


def rows(data_dir: Path | None, rounds: int, partition: str) -> list[dict[str, Any]]:
    """Returns for each way how far its models and accuracies are from those of FedAvg."""
    train, test = mnist(data_dir)
    models, curves = {}, {}
    for title, (aggregator, mechanism) in WAYS.items():
        torch.manual_seed(0)
        run = fl.FederatedAveraging(
            model=fl.models.mlp(),
            clients=fl.partition(train, CLIENTS, partition, seed=0),
            aggregator=aggregator(),
            mechanism=mechanism(),
            client_fraction=FRACTION,
            local_epochs=EPOCHS,
            batch_size=BATCH,
            lr=LR,
            weighting="equal",
        )
        weights = []
        for _ in range(rounds):
            run.fit(1, test, progress=False)
            weights.append(get_weights(run.model))
        models[title] = weights
        curves[title] = [100 * (report.accuracy or 0.0) for report in run.history]
    return [_row(title, partition, models, curves) for title in WAYS]


def _row(title: str, partition: str, models: Any, curves: Any) -> dict[str, Any]:
    far = [float(np.abs(a - b).max()) for a, b in zip(models[title], models[FEDAVG], strict=True)]
    apart = [abs(a - b) for a, b in zip(curves[title], curves[FEDAVG], strict=True)]
    grown = next((n for n, (a, b) in enumerate(pairwise(far), 2) if b > 1e-3 >= a), "-")
    reached = rounds_to(curves[title], TARGETS)
    return {
        "parts": partition,
        "way": title,
        "largest weight's difference, round 1": far[0],
        "round in which it passes 0.001": grown,
        "last round": far[-1],
        "accuracy, %": curves[title][-1],
        "accuracies apart, mean": float(np.mean(apart)),
        "accuracies apart, most": max(apart),
        **{f"rounds to {target} %": reached.get(target, "-") for target in TARGETS},
    }
