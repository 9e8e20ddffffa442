"""What CrypTen parties plan for a step, and what the same step takes."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.instruments.processes import peak_memory
from crypten_ext import in_pieces, nn, optim
from crypten_ext.nn.batches import poisson_batches
from crypten_ext.processes.worker import Context
from crypten_ext.run import forecast_host
from extensions.protocols.step import Step
from extensions.runs.budget.forecast import announced
from extensions.runs.config import TrainConfig
from tests.helpers.party_tasks.images import Sum
from tests.helpers.party_tasks.protocols import session

import crypten
from crypten import communicator

CLASSES = 10
FEATURES = 40


def lenet() -> list[torch.nn.Module]:
    """LeNet-5 on images of 28 x 28."""
    own = torch.nn
    return [
        *(own.Conv2d(1, 6, 5, padding=2), own.Tanh(), own.AvgPool2d(2)),
        *(own.Conv2d(6, 16, 5), own.Tanh(), own.AvgPool2d(2), own.Flatten()),
        *(own.Linear(400, 120), own.Tanh(), own.Linear(120, 84), own.Tanh()),
        own.Linear(84, CLASSES),
    ]


def mlp() -> list[torch.nn.Module]:
    """Two hidden layers, on the same images."""
    own = torch.nn
    hidden = [own.Flatten(), own.Linear(784, 32), own.ReLU(), own.Linear(32, 16), own.ReLU()]
    return [*hidden, own.Linear(16, CLASSES)]


def residual() -> list[torch.nn.Module]:
    """A hidden layer, and another one that is added to it."""
    own = torch.nn
    inner = Sum(own.Identity(), own.Sequential(own.Linear(16, 16), own.ReLU()))
    return [own.Flatten(), own.Linear(784, 16), own.Tanh(), inner, own.Linear(16, CLASSES)]


MODELS = {"lenet": lenet, "mlp": mlp, "residual": residual}
CASES: dict[str, tuple[str, str, dict[str, Any], tuple[str, ...]]] = {
    "lenet": ("lenet", "DPSGD", {}, ()),
    "mlp": ("mlp", "DPSGD", {"momentum": 0.5}, ()),
    "mlp by moments": ("mlp", "DPAdam", {}, ()),
    "head of an mlp": ("mlp", "DPSGD", {}, ("1.", "3.")),
    "plain mlp": ("mlp", "SGD", {}, ()),
    "residual": ("residual", "DPSGD", {}, ()),
}
"""Model, optimizer, its options, and how names of frozen parameters begin."""


def planned(context: Context, case: str, records: int) -> dict[str, Any]:
    """Returns what party 0 planned, and what the step took: the second, the first compares."""
    model, kind, options, frozen = CASES[case]
    with session():
        network = encrypted(model)
        for name, parameter in network.named_parameters():
            parameter.requires_grad = not any(map(name.startswith, frozen))
        rest = [] if kind == "SGD" else [1.0, 1.0, 0.5]
        optimizer = getattr(optim, kind)(network, 0.01, *rest, **options)
        crypten.cfg.communicator.verbose = True
        loss, plan = nn.BCEWithLogitsLoss(), None
        for step, (x, y) in enumerate(batches(records, 2)):
            before = communicator.get().get_communication_stats()
            if step and context.rank == 0:
                plan = vars(optimizer.plan(x, y))
                assert communicator.get().get_communication_stats() == before
            optimizer.zero_grad()
            loss(network(x), y).backward()
            optimizer.step()
        after = communicator.get().get_communication_stats()
        return {"plan": plan, "taken": [after[key] - before[key] for key in ("rounds", "bytes")]}


def encrypted(name: str) -> Any:
    """Returns the model, the same at all parties."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(*MODELS[name]())
    return crypten.nn.from_pytorch(model, torch.zeros(1, 1, 28, 28)).encrypt()


def batches(records: int, steps: int, rate: float = 0.5) -> Any:
    """Returns batches of this party's images and labels, of norm 1."""
    draws = np.random.default_rng(1)
    x = draws.standard_normal((records, 1, 28, 28))
    x /= 1.001 * np.linalg.norm(x.reshape(records, -1), axis=1).reshape(-1, 1, 1, 1)
    y = draws.integers(0, CLASSES, records)
    return poisson_batches(x, y, sample_rate=rate, steps=steps, classes=CLASSES)


def memory_in_pieces(context: Context, records: int, rows: int) -> dict[str, Any]:
    """Returns the most memory of a process in a step of LeNet in pieces, and what was planned."""
    with session():
        network = encrypted("lenet")
        optimizer = optim.DPSGD(network, 0.01, 1.0, 1.0, 1.0)
        loss, before, planned, total = nn.BCEWithLogitsLoss(), 0, 0, 0
        for x, y in in_pieces(batches(records, 1, 1.0), rows=rows):
            if not before:
                planned = optimizer.plan(x, y).memory if context.rank == 0 else 0
                Path("/proc/self/clear_refs").write_text("5")  # forgets what was the most before
                before = peak_memory(os.getpid())
            optimizer.zero_grad()
            loss(network(x), y).backward()
            optimizer.step()
            total += x.size(0)
        return {
            "before": before,
            "after": peak_memory(os.getpid()),
            "planned": planned,
            "rows": total,
        }


def of_few_rows(context: Context, settings: dict[str, Any], sizes: list[int]) -> list[list[int]]:
    """Returns rounds, bytes and trips of a step as they follow from few rows, and of all rows."""
    with session(), pytest.MonkeyPatch.context() as patch:
        config = TrainConfig(**settings)
        records = announced(config, sizes, FEATURES)
        step = Step.of(config, records)
        few = forecast_host.step_cost(step, records)
        patch.setattr(forecast_host, "_AT_ONCE", sum(sizes) * FEATURES * 2)
        whole = forecast_host.step_cost(step, records)
        return [[each.rounds, each.bytes or 0, each.trips] for each in (few, whole)]
