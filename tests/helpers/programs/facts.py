"""What an optimizer reads of a batch, whichever layer the batch meets first."""

import contextlib
import json
from typing import Any

import numpy as np

from crypten_ext import nn
from crypten_ext.nn.batches import poisson_batches
from crypten_ext.processes.worker import Context
from extensions.errors import ArgumentError
from extensions.privacy.accounting import Ledger
from extensions.privacy.randomness import InsecureSeededSource
from tests.helpers.party_tasks.protocols import Outcome, opened, outcome, rounds, session
from tests.helpers.programs.script import CLASSES, RATE, WIDTH, Script, dpsgd, records

import crypten


def one_step(context: Context) -> list[tuple[list[np.ndarray], dict[str, Any]]]:
    """Returns model and ledger phase after one noiseless step on rows that ReLU leaves alone."""
    fronts = {"plain": [], "flatten": [crypten.nn.Flatten()], "relu": [nn.ReLU()]}
    results = []
    with session():
        for front in fronts.values():
            script = Script(*front, nn.Linear(WIDTH, CLASSES), noise_multiplier=0.0)
            x, y = records()
            for parameter in script.model.parameters():
                parameter.share = parameter.share * 0
            settings = {"sample_rate": RATE, "steps": 1, "classes": CLASSES}
            source = InsecureSeededSource(1)
            ((script.x, script.y),) = poisson_batches(np.abs(x), y, **settings, source=source)
            script.step()
            (phase,) = json.loads(script.optimizer.ledger.to_json())["phases"]
            results.append((opened(script.model.parameters()), phase))
    return results


def epsilon_of_known_noise(context: Context) -> float:
    """Returns the epsilon of a step whose noise anybody can draw."""
    with session():
        script = Script(nn.Linear(WIDTH, CLASSES), source=InsecureSeededSource(1))
        script.step()
        return script.optimizer.get_epsilon(1e-5)


def rounds_to_build(context: Context) -> list[int]:
    """Returns the rounds that an optimizer takes to be built for one layer, and for two."""
    counts = []
    with session():
        for layers in (
            [nn.Linear(WIDTH, CLASSES)],
            [nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, CLASSES)],
        ):
            model = crypten.nn.Sequential(*layers).encrypt()
            before = rounds()
            dpsgd(model)
            counts.append(rounds() - before)
    return counts


def interrupted_step(context: Context) -> tuple[bool, list[dict[str, Any]]]:
    """Returns whether the model moved in a step that broke off as late as it can, and its cost."""

    class Late(Exception):
        pass

    with session():
        script = Script()
        before, write = opened(script.model.parameters()), script.optimizer._store.write

        def interrupt(changed: Any) -> None:
            write(changed)
            raise Late

        script.optimizer._store.write = interrupt
        with contextlib.suppress(Late):
            script.step()
        after = opened(script.model.parameters())
        moved = any((a != b).any() for a, b in zip(before, after, strict=True))
        return moved, json.loads(script.optimizer.ledger.to_json())["phases"]


def step_without_an_account(context: Context) -> tuple[Outcome, bool]:
    """Returns the outcome of a step that the ledger refuses, and whether the model moved."""

    class Full(Ledger):
        def record(self, name: str, **_: Any) -> None:
            raise ArgumentError("ledger", name, "one that takes steps")

    with session():
        script = Script()
        script.optimizer._ledger = Full()
        before = opened(script.model.parameters())
        refused = outcome(script.step)
        after = opened(script.model.parameters())
        return refused, any((a != b).any() for a, b in zip(before, after, strict=True))
