"""Plaintext runs with the arithmetic of secure ones, repeated over seeds."""

import functools
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.accuracy.records import Material, dealt
from benchmarks.accuracy.settings import Setting
from extensions.cli import console
from extensions.network.chain import Parameters
from extensions.owners.data import Split
from extensions.privacy.accounting import Ledger
from extensions.privacy.randomness import InsecureSeededSource
from extensions.ring.clear import ClearRing
from extensions.ring.fixed_point import Integers
from extensions.runs.clear_training import accuracy, encoded, starting_parameters
from extensions.runs.config import TrainConfig
from extensions.runs.descent import account, descend

Encoded = tuple[Integers, Integers]


def held_out_of(x: Any, y: Any, config: TrainConfig) -> Encoded:
    """Returns features and one-hot labels as ring integers."""
    own = encoded(x, y, config)
    return own.features, own.labels


def train(
    config: TrainConfig,
    parts: Sequence[Split],
    *,
    seed: int,
    start: Parameters | None = None,
    choose_on: Encoded | None = None,
    watch: Iterable[int] = (),
) -> dict[str, Any]:
    """Returns the accuracies, in percent, of one run on all parts' test records.

    Args:
        config: resolved settings.
        parts: each party's records.
        seed: of sampling and noise, so that the run can be repeated.
        start: parameters to start from, instead of those of `config.init`.
        choose_on: records on which local models are compared; not the test records.
        watch: steps after which accuracy is measured too; 0 is the start.

    Returns:
        "accuracy", "epsilon" (None if not private), "steps" (accuracy by step).
    """
    source, ledger = InsecureSeededSource(seed), Ledger()
    coins = source.rounding()
    ring = ClearRing(config.frac_bits, parties=config.parties, seed=coins)
    records = [encoded(part.train_x, part.train_y, config) for part in parts]
    test = held_out_of(
        np.concatenate([part.test_x for part in parts]),
        np.concatenate([part.test_y for part in parts]),
        config,
    )
    if start is None:
        start = starting_parameters(config, ring, records, choose_on or test, source, ledger)
    steps = dict.fromkeys(watch, 0.0)

    def after(step: int, parameters: Parameters) -> None:
        if step in steps:
            steps[step] = 100 * accuracy(config, ring, parameters, test)

    after(0, start)
    parameters = descend(config, records, start, source, after, coins=coins)
    account(ledger, "training", config, config.steps)
    return {
        "accuracy": 100 * accuracy(config, ring, parameters, test),
        "epsilon": ledger.get_epsilon(config.delta) if config.private and config.delta else None,
        "steps": steps,
    }


@functools.cache
def joint(
    material: Material, setting: Setting, config: TrainConfig, partition: str, seed: int
) -> dict[str, Any]:
    """Returns what `train` does for the whole data set; once for all experiments that ask."""
    found = train(config, dealt(material.features(setting), partition, seed), seed=seed)
    return {name: found[name] for name in ("accuracy", "epsilon")}


def repeated(
    title: str, seeds: Sequence[int], run: Callable[..., dict[str, Any]]
) -> list[dict[str, Any]]:
    """Returns what `run` returns for each ``seed``; shows how many are done."""
    found = []
    with console.counted(title) as show:
        for done, seed in enumerate(seeds):
            show(done, len(seeds))
            found.append(run(seed=seed))
        show(len(seeds), len(seeds))
    return found


def summary(values: Sequence[float], name: str = "accuracy, %") -> dict[str, float]:
    """Returns mean and standard deviation as columns of a table."""
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return {name: statistics.mean(values), "standard deviation": spread}


def not_private(config: TrainConfig, setting: Setting) -> TrainConfig:
    """Returns the settings of the same run without clipping and noise, which takes wider integers.

    Gradients are bounded less tightly then, so that fewer fractional bits fit the ring.
    """
    return replace(
        config,
        private=False,
        delta=None,
        noise_multiplier=None,
        frac_bits=18,
        lr=setting.lr_not_private,
    )
