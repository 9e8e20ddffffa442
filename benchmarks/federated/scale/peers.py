"""``python -m benchmarks fl-peers``: rounds of simulated clients beside Flower's and pfl's."""

import os
import sys
import time
from collections.abc import Iterator
from tempfile import TemporaryDirectory
from typing import Annotated

import torch
from torch import nn

from benchmarks.benchmark import FEDERATED, Benchmark, Result
from benchmarks.federated.leakage.images import digits
from benchmarks.federated.scale.simulated import WAYS
from benchmarks.instruments.child_process import in_python
from benchmarks.tables import Table
from extensions.options import Option
from extensions.rules import Whole, one_of

OWN, TRAINED = 15, 1500
"""Records of a client, and of the digits those that clients have; the others are tested."""
MODELS = {
    "mlp": lambda: [nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)],
    "cnn": lambda: [
        *(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(128, 10)),
    ],
}
"""Layers, of 9,610 and of 6,090 parameters."""


@Benchmark(
    FEDERATED,
    "fl-peers",
    "Simulated clients beside Flower and pfl",
    minutes=5,
    needs="--flower-python and --pfl-python for theirs",
    results=[
        Result(
            "fl-peers-.*",
            "Five epochs in batches of five; the median round after the first. **A plain round "
            "takes 4 to 9 times less time than Flower's, and half of pfl's processor time or "
            "less. Where peers are better: they mask nothing, and their rounds are faster than "
            "our masked ones; pfl needs less memory for 1,000 clients.** Processor time is of "
            "all processes; memory is the sum of their peaks, pages that they share counted in "
            "each. 1,000 clients mask on a sparse graph.",
            options="--model cnn --clients 1000 --flower-python PYTHON --pfl-python PYTHON",
            columns="*",
        )
    ],
)
def main(
    clients: Annotated[int, Option(help="Each with 15 digits."), Whole(3)] = 100,
    model: Annotated[str, Option(help="mlp or cnn."), one_of(tuple(MODELS))] = "mlp",
    rounds: Annotated[int, Option(help="Of which the first is in no median."), Whole(2)] = 4,
    flower_python: Annotated[
        str | None, Option(help="A Python that has flwr[simulation] and torch.")
    ] = None,
    pfl_python: Annotated[str | None, Option(help="A Python that has pfl[pytorch].")] = None,
) -> Iterator[Table]:
    """Start, time, processor time and memory of rounds of federated averaging in simulation.

    Each way runs in a process of its own, one after the other; processor time and memory are of all
    the processes that it starts. Peers train a client on one thread, which is faster than two.
    """
    pythons = {
        "ours": ("python", "fl", sys.executable),
        "pfl": ("pfl_python", "pfl 0.6 with torch", pfl_python),
        "Flower": ("flower_python", "flwr 1.42 with its simulation, and torch", flower_python),
    }
    torch.manual_seed(0)
    images, start, rows = digits(), nn.Sequential(*MODELS[model]()), []
    order = torch.randperm(len(images.y))
    own = order[torch.arange(clients * OWN) % TRAINED].reshape(clients, OWN)
    parts = [part[places] for places in (own, order[TRAINED:]) for part in (images.x, images.y)]
    with TemporaryDirectory() as folder:
        path = f"{folder}/given.pt"
        torch.save((start, *parts), path)
        for way in WAYS:
            option, has, python = pythons[way.partition(",")[0]]
            if python is not None:
                env = {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}
                env |= {"OMP_NUM_THREADS": "1"} if option != "python" else {}
                words = "-m", "benchmarks.federated.scale.simulated", way, str(rounds), path
                found = in_python(option, has, python, *words, str(time.time()), **env)
                rows.append({"clients": clients, "model": model, "way": way, **found})
    yield Table(f"fl-peers-{model}-{clients}", rows, rounds=rounds, load=os.getloadavg()[0])
