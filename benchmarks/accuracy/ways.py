"""What the same epsilon reaches in other ways: whitened features, open iterates, one sum."""

from collections.abc import Iterator
from functools import partial

from benchmarks.accuracy.records import Material
from benchmarks.accuracy.runs import joint, repeated, summary, table
from benchmarks.accuracy.settings import ways
from benchmarks.tables import Table

EPSILONS = (2.0, 1.0, 0.5)


def run(material: Material) -> Iterator[Table]:
    """Accuracy of each way at each epsilon, of models whose owners have even parts."""
    rows = []
    for title in ways(material.data, EPSILONS[0]):
        for epsilon in EPSILONS:
            setting = ways(material.data, epsilon)[title]
            features = material.features(setting)
            config = setting.config(
                records=len(features.train_x), classes=material.classes, epsilon=epsilon
            ).resolved()
            run_one = partial(joint, material, setting, config, "iid")
            found = repeated(f"{title}, epsilon {epsilon:g}, run", material.seeds, run_one)
            rows.append(
                {
                    "data": material.data,
                    "way": title,
                    "epsilon": epsilon,
                    "steps": config.steps,
                    **summary([each["accuracy"] for each in found]),
                }
            )
    settings = ways(material.data, EPSILONS[0])
    yield table("ways", material, rows, settings, epsilon=EPSILONS)
