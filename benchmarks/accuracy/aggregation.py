"""Averaging against the best local model as the start, for even and label-sorted parts."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from statistics import mean
from typing import Any

from benchmarks.accuracy.initialization import set_aside, with_local_start
from benchmarks.accuracy.records import Material, dealt, without_test
from benchmarks.accuracy.runs import repeated, summary, table, train
from benchmarks.accuracy.settings import tuned
from benchmarks.tables import Table
from extensions.protocols.initialization import Strategy
from extensions.runs.config import TrainConfig

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


def run(material: Material) -> Iterator[Table]:
    """Accuracy of each start, and after some steps of joint training."""
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
