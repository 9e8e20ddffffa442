"""Features, the accountant and local starts, each beside its rival at equal epsilon."""

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from statistics import mean
from typing import Any

from benchmarks.accuracy.initialization import set_aside, with_local_start
from benchmarks.accuracy.records import Material, dealt, without_test
from benchmarks.accuracy.runs import joint, not_private, repeated, summary, table, train
from benchmarks.accuracy.settings import PLAIN, Setting, tuned
from benchmarks.tables import Table
from extensions.privacy.accounting import epsilon
from extensions.protocols.initialization import Strategy
from extensions.runs.config import TrainConfig

EPSILONS = (0.25, 0.5, 1.0, 2.0)
JOINT_STEPS = 20
"""Of a training that is not finished: by its end the start no longer matters."""
PARTITIONS = {"iid": "IID", "shards": "non-IID"}
STRATEGIES: dict[Strategy, str] = {"local-average": "averaging", "local-accuracy": "accuracy"}
PAPER = {
    "mnist": {"iid": (89.53, 88.45), "shards": (50.56, 39.59)},
    "cifar10": {"iid": (83.75, 82.16), "shards": (65.39, 38.80)},
    "imdb": {"iid": (81.11, 80.53), "shards": (67.48, 79.10)},
}
"""Averaging and accuracy strategy there, percent."""


def features(material: Material) -> Iterator[Table]:
    """Accuracy on features against pixels or hashed words, each with its own tuned settings."""
    settings = {
        "none": PLAIN[material.data],
        "features": tuned(material.data, material.data_dir),
    }
    rows = [row for each in settings.values() for row in _feature_rows(material, each)]
    yield table("features", material, rows, settings)


def _feature_rows(material: Material, setting: Setting) -> list[dict[str, Any]]:
    found = material.features(setting)
    config = setting.config(
        records=len(found.train_x), classes=material.classes, epsilon=material.epsilon
    ).resolved()
    title = f"{setting.title}, run"
    private, clear = (
        repeated(title, material.seeds, partial(joint, material, setting, each, "iid"))
        for each in (config, not_private(config, setting))
    )
    common = {
        "data": material.data,
        "features": setting.title,
        "columns": found.train_x.shape[1],
    }
    return [
        {
            **common,
            "training": "private",
            "epsilon": private[0]["epsilon"],
            **summary([each["accuracy"] for each in private]),
        },
        {
            **common,
            "training": "not private",
            "epsilon": "infinite",
            **summary([each["accuracy"] for each in clear]),
        },
    ]


def accountant(material: Material) -> Iterator[Table]:
    """Accuracy by claimed epsilon, with the accountant's noise and the paper's, and their worth.

    The paper's formula is sigma = 2 C sqrt(T ln(1/delta)) / epsilon.
    """
    setting = tuned(material.data, material.data_dir)
    features = material.features(setting)
    config = setting.config(
        records=len(features.train_x), classes=material.classes, epsilon=material.epsilon
    )
    claimed = [(value, "pld") for value in EPSILONS] + [(material.epsilon, "paper")]
    rows: list[dict[str, Any]] = []
    for value, calibration in claimed:
        resolved = replace(config, epsilon=value, calibration=calibration).resolved()
        run_one = partial(joint, material, setting, resolved, "iid")
        found = repeated(f"epsilon {value}, {calibration}, run", material.seeds, run_one)
        sigma, delta = resolved.noise_multiplier, resolved.delta
        assert sigma is not None
        assert delta is not None
        rows.append(
            {
                "data": material.data,
                "noise of": "the accountant" if calibration == "pld" else "the paper",
                "claimed epsilon": value,
                "sigma/C": sigma,
                "epsilon by the accountant": epsilon(
                    noise_multiplier=sigma,
                    sample_rate=config.sample_rate,
                    steps=config.steps,
                    delta=delta,
                ),
                "epsilon by the paper": 2 * math.sqrt(config.steps * math.log(1 / delta)) / sigma,
                **summary([each["accuracy"] for each in found]),
            }
        )
    yield table("accountant", material, rows, {"features": setting})


def aggregation(material: Material) -> Iterator[Table]:
    """Accuracy of averages and of the best local model as starts, and after some joint training."""
    setting = tuned(material.data, material.data_dir)
    features = material.features(setting)
    config = setting.config(
        records=len(without_test(features).train_x),
        classes=material.classes,
        epsilon=material.epsilon,
    )
    kept, choose_on = set_aside(features, config)

    def begin(config: TrainConfig, partition: str, *, seed: int) -> dict[str, Any]:
        parts = dealt(kept, partition, seed)
        return train(config, parts, seed=seed, choose_on=choose_on, watch=(0,))

    rows = []
    for place, (strategy, title) in enumerate(STRATEGIES.items()):
        resolved = with_local_start(config, strategy)
        resolved = replace(resolved, steps=JOINT_STEPS)
        for partition, form in PARTITIONS.items():
            run_one = partial(begin, resolved, partition)
            found = repeated(f"{title}, {form}, run", material.seeds, run_one)
            paper = PAPER.get(material.data, {}).get(partition)
            rows.append(
                {
                    "data": material.data,
                    "parts": form,
                    "strategy": title,
                    **({"paper, %": paper[place]} if paper else {}),
                    **summary([each["steps"][0] for each in found], "start, %"),
                    f"after {JOINT_STEPS}, %": mean([each["accuracy"] for each in found]),
                }
            )
    yield table("aggregation", material, rows, {"features": setting})
