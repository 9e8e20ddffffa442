"""The command `optimizers`: how fast DPSGD and DPAdam learn, with equal sums and equal epsilon."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Any

import numpy as np

from benchmarks.benchmark import ACCURACY, Benchmark, Result
from benchmarks.steps.losses import inner
from benchmarks.tables import Table
from extensions.data.datasets import Split, load, split_among
from extensions.errors import ArgumentError
from extensions.layers.passes import Parameters, forward
from extensions.options import Option
from extensions.privacy.accounting import Ledger
from extensions.privacy.randomness import SystemSource
from extensions.privacy.sampling import OwnRecords
from extensions.protocols import pea
from extensions.protocols.optimizer import State
from extensions.protocols.records import Records
from extensions.protocols.step import Step
from extensions.ring.clear import ClearRing
from extensions.runs.clear_host import ClearHost
from extensions.runs.config import TrainConfig
from extensions.runs.local_data import checked_records

NAME = "optimizers"
EVERY = 10
"""Steps between two points of a curve."""
MODELS = ("logistic", "mlp:32")
ADAM_RATES = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
WAYS: Mapping[str, tuple[Mapping[str, Any], Sequence[float]]] = {
    "DPSGD": ({}, (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)),
    "DPSGD, momentum 0.8": ({"momentum": 0.8}, (0.1, 0.2, 0.5, 1.0, 2.0, 4.0)),
    "DPAdam": ({"optimizer": "adam"}, ADAM_RATES),
    "DPAdam, floor 1": ({"optimizer": "adam", "adam_floor": 1.0}, ADAM_RATES),
}
"""Settings of each, and the learning rates that are tried."""


class Curve(pea.RunCallbacks):
    """Counts right predictions on held-out records after every so many steps.

    Args:
        host: of the run.
        config: likewise.
        tried: held-out records.
    """

    def __init__(self, host: ClearHost, config: TrainConfig, tried: OwnRecords) -> None:
        super().__init__(host)
        self._config, self._tried = config, tried
        self.accuracies: list[float] = []

    def __call__(self, step: int, state: State, ledger: Ledger) -> None:
        """Adds the accuracy after so many steps, in per cent, if one is due."""
        if step and step % EVERY == 0:
            self.accuracies.append(accuracy(self._config, state.model, self._tried))


def accuracy(config: TrainConfig, model: Parameters, tried: OwnRecords) -> float:
    """Returns which part of records a model in the clear gets right, in per cent."""
    ring = ClearRing(config.frac_bits)
    network = config.network(tried.features.shape[1])
    logits = forward(ring, network, model, tried.features).logits
    right = np.argmax(logits, axis=1) == np.argmax(tried.labels, axis=1)
    return 100 * float(right.mean())


def curve(config: TrainConfig, split: Split) -> list[float]:
    """Returns the accuracies of one run on held-out records, with fresh sampling and noise."""
    parts = split_among(split, config.parties)
    records = [checked_records(part.train_x, part.train_y, config) for part in parts]
    source = SystemSource()
    host = ClearHost(config.frac_bits, parties=len(parts), owners=len(parts), source=source)
    words = pea.public_start(config, records[0].features.shape[1])
    begun = State.begin(host, config, host.restore([words]))
    found = Curve(host, config, checked_records(split.test_x, split.test_y, config))
    known = Records.agreed(host.exchange, records)
    pea.descend(Step.of(config, known), host, known, begun, Ledger(), found)
    return found.accuracies


def chosen(config: TrainConfig, split: Split, rates: Sequence[float], trials: int) -> TrainConfig:
    """Returns the config with the rate that does best on a fifth of the training records.

    Rates that might move hidden weights beyond their bound are left out. The choice costs privacy
    that nothing here accounts for: a real run would have to pay for it.
    """
    found, tried = {}, inner(split)
    for rate in rates:
        with suppress(ArgumentError):
            one = replace(config, lr=rate)
            found[one] = statistics.mean(curve(one, tried)[-1] for _ in range(trials))
    return max(found, key=lambda one: found[one])


@Benchmark(
    ACCURACY,
    "optimizers",
    "DPSGD and DPAdam",
    minutes=12,
    results=[
        Result(
            "optimizers",
            "Equal noise on the digits, at a rate chosen for each. With one layer all learn about "
            "as fast and as much; with a hidden layer Adam is held back by the proven bound on "
            "how far a step may move a weight.",
            columns="model | optimizer | lr | half the steps: accuracy, % | accuracy, % | "
            "standard deviation",
        )
    ],
)
def main(
    seeds: Annotated[int, Option(help="Runs of each kind, with fresh noise.")] = 10,
    trials: Annotated[int, Option(help="Runs of each rate that is tried.")] = 4,
    steps: int = 120,
    epsilon: float = 2.0,
) -> Iterator[Table]:
    """Accuracy by step of DPSGD, with momentum and without, and of DPAdam, on the digits."""
    split = load("digits", None, 0)
    rows, samples = [], {}
    for model in MODELS:
        base = TrainConfig(
            backend="clear", model=model, epsilon=epsilon, delta=1e-5, steps=steps
        ).resolved()
        means = {}
        for way, (settings, rates) in WAYS.items():
            config = chosen(replace(base, **settings), split, rates, trials)
            curves = [curve(config, split) for _ in range(seeds)]
            samples[f"{model}, {way}"] = curves
            means[way] = [statistics.mean(column) for column in zip(*curves, strict=True)]
            last = [one[-1] for one in curves]
            half = len(means[way]) // 2 - 1
            rows.append(
                {
                    "model": model,
                    "optimizer": way,
                    "lr": config.lr,
                    "half the steps: accuracy, %": means[way][half],
                    "accuracy, %": statistics.mean(last),
                    "standard deviation": statistics.stdev(last) if seeds > 1 else 0.0,
                    "runs": seeds,
                }
            )
            print(rows[-1], flush=True)
    yield Table(
        NAME,
        rows,
        samples=samples,
        epsilon=epsilon,
        delta=1e-5,
        steps=steps,
        sample_rate=base.sample_rate,
        max_grad_norm=base.max_grad_norm,
        noise_multiplier=base.noise_multiplier,
        trials=trials,
        seed="the operating system's, but for the public split of the data, 0",
        network="none: plaintext, with a secure run's arithmetic",
    )
