"""How many Python functions of ours a step of a script calls, and what it takes of a processor.

``python -m tests.helpers.party_tasks.calls`` prints both of a step of one layer at one of two
parties, and which functions are called most.
"""

import sys
import time
from collections import Counter
from types import FrameType
from typing import Any

import numpy as np

from crypten_ext import nn, optim, poisson_batches
from crypten_ext.processes.launch import Parties
from crypten_ext.processes.worker import Context
from tests.helpers.party_tasks.protocols import session
from tests.helpers.paths import ROOT

import crypten

PACKAGES = tuple(f"{ROOT / name}/" for name in ("extensions", "crypten_ext", "tfe_ext"))
BELOW = tuple(
    f"{package}/{room}/"
    for package, rooms in {
        "extensions": ("ring", "transport"),
        "crypten_ext": ("ring", "transport", "masks", "dealer"),
    }.items()
    for room in rooms
)
"""Rooms of the arithmetic, tuples and messages that a step is made of."""


class Script:
    """One layer, its optimizer and batches, whose rows are a power of two at most."""

    def __init__(self, rows: int, features: int, classes: int, steps: int) -> None:
        draws = np.random.default_rng(0)
        x = draws.uniform(-1.0, 1.0, (rows, features)) / features**0.5
        y = draws.integers(0, classes, rows)
        self.model = crypten.nn.Sequential(nn.Linear(features, classes)).encrypt()
        self.optimizer = optim.DPSGD(
            self.model, lr=1.0, max_grad_norm=1.0, noise_multiplier=1.0, sample_rate=1.0
        )
        settings: dict[str, Any] = {"sample_rate": 1.0, "steps": steps, "classes": classes}
        self.batches = poisson_batches(x, y, **settings)

    def step(self) -> None:
        """Makes the next step, its batch included."""
        x, y = next(self.batches)
        self.optimizer.zero_grad()
        nn.BCEWithLogitsLoss()(self.model(x), y).backward()
        self.optimizer.step()


def of_second_step(context: Context, rows: int = 8, features: int = 6) -> Counter[str]:
    """Returns how often a party calls each of our functions in its second step."""
    calls: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGES):
            path = code.co_filename.removeprefix(f"{ROOT}/")
            calls[f"{path}:{code.co_qualname}"] += 1

    with session():
        script = Script(rows, features, 3, steps=2)
        script.step()
        sys.setprofile(count)
        try:
            script.step()
        finally:
            sys.setprofile(None)
    return calls


def above_the_ring(calls: Counter[str]) -> int:
    """Returns how many calls are of the step, its layers, its batch and its account."""
    return sum(count for name, count in calls.items() if not name.startswith(BELOW))


def processor_time(context: Context, steps: int = 40) -> list[float]:
    """Returns a party's seconds of processor time in each of a script's steps at 128x512x10."""
    with session():
        script, stamps = Script(64, 512, 10, steps), [time.process_time()]
        for _ in range(steps):
            script.step()
            stamps.append(time.process_time())
    return np.diff(stamps).tolist()


def _show() -> None:
    with Parties(2) as parties:
        (calls, _), (each, _) = (
            parties.run(f"{__spec__.name}:{task}") for task in ("of_second_step", "processor_time")
        )
    for name, count in calls.most_common(40):
        print(f"{count:6d} {name}")
    print(f"{above_the_ring(calls):6d} calls above the ring, {calls.total()} in all")
    print(f"{1000 * np.median(each[1:]):.1f} ms of a processor at 128x512x10")


if __name__ == "__main__":
    _show()
