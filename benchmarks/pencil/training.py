"""What a step of Pencil costs: bytes, rounds and seconds a sample, and what it costs a record."""

import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

from benchmarks.instruments.memory import peak_memory
from benchmarks.tables import publish
from crypten_ext import pairwise
from crypten_ext.pencil import turn
from crypten_ext.pencil.account import Account, Budget
from crypten_ext.pencil.model import Model
from crypten_ext.pencil.terms import Terms
from crypten_ext.processes.launch import Parties
from crypten_ext.processes.meter import Meter
from crypten_ext.processes.worker import Context
from extensions.network.layers import LayerGradient
from extensions.pairwise.owned import MODEL
from extensions.protocols.dpsgd import Sums
from extensions.protocols.dpsgd_plan import StepPlan
from extensions.protocols.pencil import step
from extensions.ring.interface import Ring, Share

NAME = "pencil-training"
HOUR = 3600.0
LAN, WAN = (0.3e-3, 384e6), (40e-3, 44e6)
"""Seconds of a round and bytes a second, as papers on two parties have them since Cheetah's."""


class Case(NamedTuple):
    """One row of the paper's Table III, and how it is done here.

    Attributes:
        task: its name.
        model: as in `pea train`.
        features: of a record.
        lan: published samples an hour.
        wan: likewise.
        size: published MB a sample.
        batch: records of a step on average; None for those that are asked for.
        clips: whether examples are clipped; theirs are not, and then no epsilon holds.
    """

    task: str
    model: str
    features: int
    lan: float
    wan: float
    size: float
    batch: int | None = None
    clips: bool = True


CASES = (
    Case("MNIST, MLP", "mlp:128,128", 784, 9.73e4, 5.12e4, 1.66),
    Case("MNIST, MLP, no example clipped", "mlp:128,128", 784, 9.73e4, 5.12e4, 1.66, clips=False),
    Case("MNIST, LeNet-5; CNN", "lenet", 784, 7.7e4, 4.43e4, 1.71, batch=32),
    Case(
        "CIFAR-10, head on 512 frozen features; ResNet50",
        "logistic",
        512,
        1.83e4,
        1.17e4,
        5.48,
    ),
)


def records(features: int, count: int) -> tuple[Any, Any]:
    """Returns rows of norm 1: what a step costs depends on shapes alone."""
    draws = np.random.default_rng(0)
    x = draws.normal(size=(count, features))
    return x / np.linalg.norm(x, axis=1, keepdims=True), np.arange(count) % 10


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
    context: Context, *, model: str, features: int, budget: Budget, records_of: int, ledger: Path
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

    if context.rank == MODEL:
        owned = Model.begin(terms, 1.0)
        _, offer = turn.lead(Marked(terms, owned.layers, 1.0), budget.steps)
        stated: dict[str, Any] = {"rows": offer.rows}
    else:
        x, y = records(features, records_of)
        account = Account(ledger, budget, records_of)
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


def row_of(case: Case, *, batch: int, steps: int, samples: int) -> dict[str, Any]:
    """Returns the row of a case.

    Args:
        case: which.
        batch: records of a step, on average.
        steps: that are measured, after one that is not.
        samples: number of records.
    """
    batch = case.batch or batch
    budget = Budget(epsilon=2.0, delta=1e-6, steps=steps + 1, sample_rate=batch / samples)
    with tempfile.TemporaryDirectory() as folder, Parties(2, timeout=1200.0) as pool:
        owner, data = pool.run(
            f"benchmarks.pencil.training:{'measure' if case.clips else 'measure_unclipped'}",
            model=case.model,
            features=case.features,
            budget=budget,
            records_of=samples,
            ledger=Path(folder) / "ledger",
        )
    seconds = [
        owner["seconds"] + owner["rounds"] * latency + owner["bytes"] / 2 / rate
        for latency, rate in (LAN, WAN)
    ]
    lan, wan = (HOUR * batch / each for each in seconds)
    return {
        "task": case.task,
        "model": case.model,
        "batch": batch,
        "rows": owner["rows"],
        "samples/s": batch / owner["seconds"],
        "samples/h, LAN": lan,
        "published, LAN": case.lan,
        "samples/h, WAN": wan,
        "published, WAN": case.wan,
        "MB a sample": owner["bytes"] / batch / 1e6,
        "published, MB": case.size,
        "rounds a step": owner["rounds"],
        "processor s a sample": (owner["work"] + data["work"]) / batch,
        "epsilon of these steps": data["epsilon"] if case.clips else "none",
        "published epsilon": "none",
        "MB of memory, larger": max(owner["memory"], data["memory"]) / 1e6,
    }


def publish_training(*, batch: int, steps: int, samples: int) -> None:
    """Measures and publishes all cases."""
    publish(
        NAME,
        [row_of(case, batch=batch, steps=steps, samples=samples) for case in CASES],
        batch=batch,
        steps=steps,
        samples=samples,
        seed="the operating system's for keys, masks, noise and sampling",
        network="loopback, TLS; LAN and WAN by formula: rounds of 0.3 ms and 384 MB/s, of 40 ms "
        "and 44 MB/s, each way",
        bytes="what TCP carried, both ways, over the records that are drawn on average",
        published="Liu et al., NDSS 2024, Table III, Pencil, on their machines",
    )
