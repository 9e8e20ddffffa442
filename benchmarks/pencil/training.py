"""What a step of Pencil costs: bytes, rounds and seconds a sample, and what it costs a record."""

import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

from benchmarks.instruments.processes import peak_memory
from benchmarks.network import Link, call, link
from benchmarks.tables import Table
from crypten_ext import pairwise
from crypten_ext.pencil import turn
from crypten_ext.pencil.account import Account, Budget
from crypten_ext.pencil.model import Model
from crypten_ext.pencil.terms import Terms
from crypten_ext.processes.launch import Parties
from crypten_ext.processes.meter import Meter
from crypten_ext.processes.worker import Context
from extensions.layers.linear_layers import LayerGradient
from extensions.layers.models.custom import Layers
from extensions.protocols.dpsgd import Sums
from extensions.protocols.dpsgd_plan import StepPlan
from extensions.protocols.pencil import step
from extensions.ring.interface import Ring, Share
from extensions.two_party import products

NAME = "pencil-training"
HOUR = 3600.0
NETWORKS = {
    "LAN": link("lan", delay_ms=0.15, mbit=3072.0),
    "WAN": link("wan", delay_ms=20.0, mbit=352.0),
}
"""Round trips of 0.3 ms and 384 MB/s, of 40 ms and 44 MB/s: those of papers on two parties."""
TIMEOUT = 3600.0


class Case(NamedTuple):
    """One row of the paper's Table III, and how it is done here.

    Attributes:
        task: its name.
        model: as in `pea train`.
        features: of a record.
        lan: published samples an hour.
        wan: likewise.
        size: published MB a sample.
        part: of the records of a step that are asked for.
        clips: whether examples are clipped; theirs are not, and then no epsilon holds.
        records: of the data owner.
    """

    task: str
    model: str
    features: int
    lan: float
    wan: float
    size: float
    part: float = 1.0
    clips: bool = True
    records: int = 60_000


CNN = (
    Layers()
    .convolution(5, 5, stride=2, padding=2)
    .activation("relu")
    .linear(100)
    .activation("relu")
    .text()
)
"""The network of Riazi et al., "Chameleon", ASIACCS 2018, which is the paper's CNN for MNIST."""
CASES = (
    Case("MNIST, MLP", "mlp:128,128", 784, 9.73e4, 5.12e4, 1.66),
    Case("MNIST, MLP, no example clipped", "mlp:128,128", 784, 9.73e4, 5.12e4, 1.66, clips=False),
    Case("MNIST, CNN", CNN, 784, 7.70e4, 4.43e4, 1.71, part=0.25),
    Case(
        "CIFAR-10, head on ResNet50",
        "mlp:512,256",
        2048,
        1.83e4,
        1.17e4,
        5.48,
        part=0.25,
        records=50_000,
    ),
    Case(
        "CIFAR-10, one layer on 512 features", "logistic", 512, 1.83e4, 1.17e4, 5.48, records=50_000
    ),
)


def records(features: int, count: int) -> tuple[Any, Any]:
    """Returns rows of norm 1: what a step costs depends on shapes alone."""
    draws = np.random.default_rng(0)
    x = draws.standard_normal((count, features), dtype=np.float32)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return x, np.arange(count) % 10


def unclipped_sums(
    ring: Ring, layers: Sequence[LayerGradient], plan: StepPlan, padding: Share | None
) -> Sums:
    """Returns what the paper adds up: gradients as they are, rows of padding too."""
    deltas = [layer.deltas.reshape(-1, layer.deltas.shape[-1]) for layer in layers]
    sums = ring.matmul([(d.T, layer.inputs) for d, layer in zip(deltas, layers, strict=True)])
    return list(zip(sums, [d.sum(0) * (1 << ring.frac_bits) for d in deltas], strict=True))


def measure_unclipped(context: Context, **given: Any) -> dict[str, Any]:
    """Returns what `measure` does, of steps that clip nothing."""
    with patch.object(step, "clipped_sums", unclipped_sums):
        return measure(context, **given)


def measure(
    context: Context, *, model: str, features: int, budget: Budget, count: int, ledger: Path
) -> dict[str, Any]:
    """Returns one party's costs of a turn of all steps of a budget; the first is not counted."""
    terms = Terms(model=model, features=features, classes=10)
    marks: list[tuple[float, int, int, float]] = []
    pairwise.disconnect()
    meter = Meter()

    def mark() -> None:
        traffic = meter.read()
        (carried,) = traffic.carried
        marks.append((time.perf_counter(), carried.bytes, traffic.rounds, time.process_time()))

    class Marked(Model):
        def learn(self, sums: Any, expected: float) -> None:
            super().learn(sums, expected)
            mark()

    if context.rank == products.MODEL:
        begun = Model.begin(terms, 1.0)
        _, offer = turn.lead(Marked(terms, begun.layers, 1.0), budget.steps)
        stated: dict[str, Any] = {"rows": offer.rows}
    else:
        x, y = records(features, count)
        account = Account(ledger, budget, count)
        turn.follow(lambda told: told.encoded(x, y), account, progress=lambda made: mark())
        stated = {"epsilon": account.epsilon()}
    first, last = marks[0], marks[-1]
    seconds, size, rounds, work = (
        (b - a) / (len(marks) - 1) for a, b in zip(first, last, strict=True)
    )
    memory = peak_memory(os.getpid())
    return {
        "seconds": seconds,
        "bytes": size,
        "rounds": rounds,
        "work": work,
        "memory": memory,
        **stated,
    }


def costs(case: Case, *, batch: int, steps: int) -> list[dict[str, Any]]:
    """Returns what the model's owner and the data owner measured, on the network that this is."""
    budget = Budget(epsilon=2.0, delta=1e-6, steps=steps + 1, sample_rate=batch / case.records)
    with tempfile.TemporaryDirectory() as folder, Parties(2, timeout=TIMEOUT) as pool:
        return pool.run(
            f"benchmarks.pencil.training:{'measure' if case.clips else 'measure_unclipped'}",
            model=case.model,
            features=case.features,
            budget=budget,
            count=case.records,
            ledger=Path(folder) / "ledger",
        )


def row_of(
    case: Case, *, batch: int, steps: int, networks: dict[str, Link]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the row of a case, and what was measured of the networks.

    A batch is that of cases with a part of 1. One step more is made before, and not measured.
    """
    batch = max(1, round(case.part * batch))
    given = {"case": case, "batch": batch, "steps": steps}
    found, states = {}, {}
    for name, each in networks.items():
        found[name], states[name] = call(
            each, "benchmarks.pencil.training:costs", timeout=TIMEOUT, **given
        )
    owner, data = found["LAN"]
    a_second = {name: batch / found[name][0]["seconds"] for name in found}
    row = {
        "task": case.task,
        "batch": batch,
        "rows": owner["rows"],
        "samples/s, LAN": a_second["LAN"],
        "samples/h, LAN": HOUR * a_second["LAN"],
        "published, LAN": case.lan,
        "samples/h, WAN": HOUR * a_second["WAN"],
        "published, WAN": case.wan,
        "MB a sample": owner["bytes"] / batch / 1e6,
        "published, MB": case.size,
        "rounds a step": owner["rounds"],
        "processor s a sample": (owner["work"] + data["work"]) / batch,
        "epsilon of these steps": data["epsilon"] if case.clips else "none",
        "published epsilon": "none",
        "MB of memory, larger": max(owner["memory"], data["memory"]) / 1e6,
    }
    return row, states


def training_table(*, batch: int, steps: int) -> Table:
    """Measures all cases."""
    sizes = {"batch": batch, "steps": steps}
    rows = [row_of(case, networks=NETWORKS, **sizes) for case in CASES]
    return Table(
        NAME,
        [row for row, _ in rows],
        **sizes,
        records={case.task: case.records for case in CASES},
        models={case.task: f"{case.model} of {case.features}" for case in CASES},
        seed="the operating system's for keys, masks, noise and sampling",
        network=rows[0][1],
        bytes="what TCP carried, both ways, over the records that are drawn on average",
        published="Liu et al., NDSS 2024, Table III, Pencil, on their machines",
    )
