"""What the programs of CrypTen's corpora begin with, and how they are run."""

import functools
import importlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from crypten_ext import nn, optim
from crypten_ext.nn.batches import poisson_batches
from crypten_ext.processes.worker import Context
from tests.helpers.party_tasks.protocols import Outcome, outcome, session
from tests.helpers.programs import as_it_is

import crypten
from crypten.mpc import MPCTensor

WIDTH, HIDDEN, CLASSES, RECORDS, RATE = 4, 4, 4, 6, 0.5
"""As many features as classes, so that tensors can be put into one another's places."""

Between = Callable[[Any], Any]


def records(count: int = RECORDS) -> tuple[np.ndarray, np.ndarray]:
    """Returns this party's features and labels."""
    draws = np.random.default_rng(0)
    return draws.uniform(-0.4, 0.4, (count, WIDTH)), draws.integers(0, CLASSES, count)


def batches(steps: int = 1, **options: Any) -> Iterator[tuple[MPCTensor, MPCTensor]]:
    """Returns batches of these records; without options the next ones of a single run."""
    if not options:
        return itertools.islice(_run_of(int(crypten.cfg.encoder.precision_bits)), steps)
    settings = {"sample_rate": RATE, "classes": CLASSES, **options}
    return poisson_batches(*records(), steps=steps, **settings)


@functools.cache
def _run_of(frac_bits: int) -> Iterator[tuple[MPCTensor, MPCTensor]]:
    """Returns batches of that precision; to agree on each anew takes longer than most programs."""
    return poisson_batches(*records(), sample_rate=RATE, steps=10_000, classes=CLASSES)


def encrypted() -> tuple[MPCTensor, MPCTensor]:
    """Returns records that a script shares itself."""
    x, y = records()
    targets = torch.eye(CLASSES)[torch.from_numpy(y)]
    return crypten.cryptensor(torch.from_numpy(x)), crypten.cryptensor(targets)


def dpsgd(model: Any, **options: Any) -> optim.DPSGD:
    """Returns an optimizer that has adopted the model."""
    defaults = {"lr": 1.0, "max_grad_norm": 1.0, "noise_multiplier": 1.0, "sample_rate": RATE}
    return optim.DPSGD(model, **{**defaults, **options})


class Script:
    """A model, its optimizer, a loss and a batch; a linear model unless layers are given."""

    def __init__(self, *layers: Any, **options: Any) -> None:
        self.model = crypten.nn.Sequential(*(layers or [nn.Linear(WIDTH, CLASSES)])).encrypt()
        self.optimizer = dpsgd(self.model, **options)
        self.loss = nn.BCEWithLogitsLoss()
        ((self.x, self.y),) = batches()

    @classmethod
    def deep(cls, **options: Any) -> "Script":
        """Returns one of a model with a hidden layer."""
        return cls(nn.Linear(WIDTH, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CLASSES), **options)

    def next(self) -> "Script":
        """Returns it with a fresh batch."""
        ((self.x, self.y),) = batches()
        return self

    def step(
        self,
        x: Between = as_it_is,
        y: Between = as_it_is,
        logits: Between = as_it_is,
        hidden: Between | None = None,
    ) -> None:
        """Makes one step, with something done to the features, targets, logits or hidden values."""
        self.optimizer.zero_grad()
        first = x(self.x)
        if hidden is None:
            output = self.model(first)
        else:
            below, activation, above = self.model.children()
            output = above(activation(hidden(below(first))))
        self.learn(logits(output), y(self.y))

    def learn(self, logits: Any, y: Any = None) -> None:
        """Makes the second half of a step, with these logits."""
        self.loss(logits, self.y if y is None else y).backward()
        self.optimizer.step()


def outcomes(context: Context, module: str) -> dict[str, Outcome]:
    """Returns the outcome of each program of a module, in its order."""
    found = {}
    with session():
        for program in importlib.import_module(module).program:
            try:
                found[program.__name__] = outcome(program)
            except Exception as error:
                error.add_note(f"The program is {program.__name__}.")
                raise
    return found
