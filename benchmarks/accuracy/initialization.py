"""Local initialisation against random and zero starts, by iteration, at equal total epsilon."""

import statistics
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from benchmarks.accuracy.records import Material, dealt, without_test
from benchmarks.accuracy.runs import Encoded, held_out_of, repeated, table, train
from benchmarks.accuracy.settings import tuned
from benchmarks.tables import Table
from extensions.data.datasets import Split
from extensions.layers.passes import Parameters
from extensions.privacy.accounting import Ledger
from extensions.protocols.settings import account
from extensions.ring.fixed_point import encode
from extensions.runs.config import TrainConfig
from extensions.runs.local_training import account_for_local_training

LOCAL_SHARE = 0.25
"""Of epsilon, for the local models."""
RANDOM_DEVIATION = 0.2
BEGINNING = 60
"""Iterations that are run, of a training with the noise of all of them."""
WATCHED = (*range(21), *range(25, BEGINNING + 1, 5))
RATES = (1.0, 0.25)
"""Times the learning rate that is best for a whole training from zero."""
LOCAL, RANDOM = "local", f"N(0, {RANDOM_DEVIATION})"

Line = tuple[list[int], list[float], list[float]]
"""Steps, means and standard deviations."""


def set_aside(features: Split, config: TrainConfig) -> tuple[Split, Encoded]:
    """Returns the records without some training records, and those, to compare local models on."""
    part = without_test(features)
    kept = replace(features, train_x=part.train_x, train_y=part.train_y)
    return kept, held_out_of(part.test_x, part.test_y, config)


def with_local_start(config: TrainConfig, strategy: Any) -> TrainConfig:
    """Returns resolved settings that spend epsilon on local models and joint training together."""
    assert config.epsilon is not None
    first = LOCAL_SHARE * config.epsilon
    steps = max(1, config.steps // 2)
    return replace(config, init=strategy, epsilon_init=first, init_steps=steps).resolved()


def run(material: Material) -> Iterator[Table]:
    """Accuracy after each of the first iterations, from three starts at two learning rates."""
    setting = tuned(material.data, material.data_dir)
    features = material.features(setting)
    classes, columns = material.classes, features.train_x.shape[1]
    records = len(without_test(features).train_x)
    config = setting.config(records=records, classes=classes, epsilon=material.epsilon)
    kept, choose_on = set_aside(features, config)
    parts = dealt(kept)
    resolved, localized = config.resolved(), with_local_start(config, "local")

    def begin(
        config: TrainConfig, start: Callable[[int], Parameters | None], *, seed: int
    ) -> dict[str, Any]:
        begun = replace(config, steps=min(BEGINNING, config.steps))
        watch = [step for step in WATCHED if step <= begun.steps]
        return train(begun, parts, seed=seed, start=start(seed), choose_on=choose_on, watch=watch)

    random = partial(_random, classes, columns, config.frac_bits)
    rows, curves = [], {}
    for rate in RATES:
        ways = {
            LOCAL: partial(begin, _at(localized, rate), lambda seed: None),
            RANDOM: partial(begin, _at(resolved, rate), random),
            "zero": partial(begin, _at(resolved, rate), lambda seed: None),
        }
        for start, way in ways.items():
            title = f"{start}, lr {rate * config.lr:g}"
            found = repeated(f"start {title}, run", material.seeds, way)
            curves[title] = _curve(found)
            rows.append(_row(material.data, start, rate * config.lr, curves[title]))
    after_two = max(row["after 2"] for row in rows if row["start"] == LOCAL)
    rivals = max(row["best of 1..20"] for row in rows if row["start"] == RANDOM)
    yield table(
        "initialization",
        material,
        rows,
        {"features": setting},
        records=records,
        epsilon_init=LOCAL_SHARE * material.epsilon,
        epsilon_of_local_and_joint_training=_spent(localized),
        curves=curves,
        local_after_2=after_two,
        random_best_of_1_to_20=rivals,
        local_is_ahead=after_two > rivals,
    )


def _at(config: TrainConfig, rate: float) -> TrainConfig:
    """Returns the settings of joint training at another learning rate, local training as it was."""
    local = None if config.strategy is None else config.lr / config.parties
    return replace(config, lr=rate * config.lr, init_lr=local)


def _random(classes: int, columns: int, frac_bits: int, seed: int) -> Parameters:
    draws = np.random.default_rng(seed)
    weight = draws.normal(0.0, RANDOM_DEVIATION, (classes, columns))
    return [(encode(weight, frac_bits), np.zeros(classes, dtype=np.int64))]


def _curve(found: list[dict[str, Any]]) -> Line:
    steps = list(found[0]["steps"])
    columns = [[each["steps"][step] for each in found] for step in steps]
    spreads = [statistics.stdev(column) if len(column) > 1 else 0.0 for column in columns]
    return steps, [statistics.mean(column) for column in columns], spreads


def _row(data: str, start: str, rate: float, curve: Line) -> dict[str, Any]:
    steps, means, spreads = curve
    mean = dict(zip(steps, means, strict=True))
    return {
        "data": data,
        "start": start,
        "lr": rate,
        **{f"after {step}": mean[step] for step in (0, 1, 2, 5, 10, 20)},
        "best of 1..20": max(mean[step] for step in range(1, 21)),
        "standard deviation after 2": dict(zip(steps, spreads, strict=True))[2],
    }


def _spent(config: TrainConfig) -> float:
    assert config.delta is not None
    ledger = Ledger()
    account_for_local_training(ledger, config)
    account(ledger, "training", config, config.steps)
    return ledger.get_epsilon(config.delta)
