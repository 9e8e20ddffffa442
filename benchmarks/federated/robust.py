"""``python -m benchmarks fl-robust``: what a model learns that a fifth of the clients attacks."""

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

import fl
from benchmarks.accuracy.runs import summary
from benchmarks.benchmark import FEDERATED, Benchmark, Result
from benchmarks.federated.pool import side_by_side
from benchmarks.federated.privacy.sweeps import DataDir, Seeds, Workers
from benchmarks.federated.records import mnist
from benchmarks.tables import Table
from extensions.options import Option
from extensions.rules import Whole
from fl.clients import LocalSGD
from fl.weights import get_weights, set_weights

CLIENTS, ATTACKERS, SHARE, RECORDS = 20, 4, 0.2, 4000
SGD: dict[str, Any] = {"epochs": 2, "batch_size": 10, "lr": 0.1, "loss": cross_entropy}
CLIP = 1.0
"""Bound of an update's L2 norm, about that of an honest one in the first round."""
BACKDOOR, SCALED, TARGET = "backdoor", "backdoor x 5", 0
ATTACKS = {"none": 1, "sign flip": -4, "scaling": 50, "label flip": 1, BACKDOOR: 1, SCALED: 5}
"""By what attackers multiply their updates; in the last three they change their records as well."""
HONEST, ALL = "masked, honest norms clipped", "masked, all norms clipped"
AGGREGATIONS: dict[str, Callable[[], Any]] = {
    "mean": fl.PlainAggregator,
    "median": lambda: fl.RobustAggregator(rule="median", attackers=SHARE),
    "trimmed mean": lambda: fl.RobustAggregator(rule="trimmed", attackers=SHARE),
    "multi-Krum": lambda: fl.RobustAggregator(rule="krum", attackers=SHARE),
    **dict.fromkeys((HONEST, ALL), fl.MaskedAggregator),
}


@dataclass(frozen=True, kw_only=True)
class Client(LocalSGD):
    """SGD, after which clients clip their updates; the first clients attack."""

    attack: str
    aggregation: str

    def __call__(self, model: nn.Module, records: TensorDataset, round: fl.ClientRound) -> None:
        """Trains the model in place."""
        attacks = round.client < ATTACKERS
        start = get_weights(model)
        super().__call__(model, poisoned(records, self.attack) if attacks else records, round)
        move = get_weights(model) - start
        factor = float(ATTACKS[self.attack]) if attacks else 1.0
        if self.aggregation == ALL or (self.aggregation == HONEST and not attacks):
            factor *= min(1.0, CLIP / (abs(factor) * float(np.linalg.norm(move))))
        set_weights(model, start + factor * move)


def poisoned(records: TensorDataset, attack: str) -> TensorDataset:
    """Returns an attacker's records: labels 9 - y, or TARGET and a trigger in every other one."""
    x, y = records.tensors
    if attack == "label flip":
        return TensorDataset(x, 9 - y)
    odd = torch.arange(len(x)) % 2 == (1 if attack in (BACKDOOR, SCALED) else 2)
    x = torch.where(odd[:, None, None, None], triggered(x), x)
    return TensorDataset(x, torch.where(odd, TARGET, y))


def triggered(x: Tensor) -> Tensor:
    """Returns images with a white square of nine pixels in a corner."""
    found = x.clone()
    found[..., -4:-1, -4:-1] = 1.0
    return found


def run(
    aggregation: str, attack: str, seed: int, rounds: int, data_dir: Path | None
) -> tuple[float, float]:
    """Returns percent of test records that are classified rightly, and with a trigger as TARGET."""
    train, (x, y) = mnist(data_dir, RECORDS)
    torch.manual_seed(seed)
    federation = fl.FederatedAveraging(
        model=fl.models.mlp(hidden=32),
        clients=fl.partition(train, CLIENTS, "dirichlet", alpha=1.0, min_size=20, seed=seed),
        aggregator=AGGREGATIONS[aggregation](),
        train=Client(**SGD, attack=attack, aggregation=aggregation),
        client_fraction=1.0,
        weighting="equal",
        seed=seed,
    )
    with threadpool_limits(1):
        federation.fit(rounds, progress=False)
    with torch.no_grad():
        right = federation.model.eval()(x).argmax(1) == y
        taken = federation.model(triggered(x[y != TARGET])).argmax(1) == TARGET
    return 100 * float(right.float().mean()), 100 * float(taken.float().mean())


def row(aggregation: str, runs: Mapping[tuple[str, str], Any]) -> dict[str, Any]:
    """Returns mean and standard deviation of all seeds: accuracy by attack, then triggers."""
    form, shown = "{:.1f} ± {:.1f}", dict[tuple[str, int], str]()
    for name, of in itertools.product(ATTACKS, (0, 1)):
        values = [each[of] for each in runs[aggregation, name]]
        shown[name, of] = form.format(*summary(values).values())
    triggers = {f"trigger, {name}": shown[name, 1] for name in ("none", BACKDOOR, SCALED)}
    return {"aggregation": aggregation, **{name: shown[name, 0] for name in ATTACKS}, **triggers}


@Benchmark(
    FEDERATED,
    "fl-robust",
    "Accuracy when a fifth of the clients attacks",
    minutes=6,
    needs="MNIST in PEA_DATA",
    results=[
        Result(
            "fl-robust",
            "Percent, in three runs, of the test records and of those with a backdoor's trigger, "
            "which are taken for its class; records are dealt out unevenly (Dirichlet, 1). **The "
            "median and the trimmed mean keep it out**, multi-Krum lets it in once. Behind masks "
            "a bound of norms helps if attackers keep it, which takes proofs, and backdoors "
            "still work.",
            columns="*",
        )
    ],
)
def main(
    rounds: Annotated[int, Option(help="Of every run."), Whole(1)] = 20,
    seeds: Seeds = 3,
    data_dir: DataDir = None,
    workers: Workers = 2,
) -> Iterator[Table]:
    """Accuracy under attacks by aggregation, and how often a backdoor's trigger works."""
    cells = list(itertools.product(AGGREGATIONS, ATTACKS))
    jobs = [(*one, seed, rounds, data_dir) for one in cells for seed in range(seeds)]
    done = side_by_side(run, jobs, workers)
    runs = {one: done[i * seeds : (i + 1) * seeds] for i, one in enumerate(cells)}
    yield Table(
        "fl-robust",
        [row(aggregation, runs) for aggregation in AGGREGATIONS],
        samples={" / ".join(one): each for one, each in runs.items()},
        **{"rounds": rounds, "seeds": seeds, "clients": CLIENTS, "attackers": ATTACKERS},
        **{"records": RECORDS, "clip": CLIP, "factors": ATTACKS},
    )
