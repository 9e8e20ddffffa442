"""How the settings were found: on a part of the training records, never on the test records."""

from collections.abc import Iterator
from functools import partial

from benchmarks.accuracy.records import Material, dealt, without_test
from benchmarks.accuracy.runs import repeated, summary, table, train
from benchmarks.accuracy.settings import PLAIN, tuned
from benchmarks.tables import Table

RATES = (0.25, 1.0, 4.0)
NORMS = (0.5, 1.0, 2.0)
"""Times the learning rate and the clipping norm in use."""


def run(material: Material) -> Iterator[Table]:
    """Accuracy on records set aside, around the settings in use."""
    rows = []
    settings = {
        "features": tuned(material.data, material.data_dir),
        "none": PLAIN[material.data],
    }
    for setting in settings.values():
        features = without_test(material.features(setting))
        parts = dealt(features)
        for rate in RATES:
            for norm in NORMS:
                config = setting.config(
                    records=len(features.train_x),
                    classes=material.classes,
                    epsilon=material.epsilon,
                    lr=rate * setting.lr,
                    max_grad_norm=norm * setting.max_grad_norm,
                ).resolved()
                found = repeated(
                    f"{setting.title}, lr {config.lr:g}, C {config.max_grad_norm:g}, run",
                    material.seeds,
                    partial(train, config, parts),
                )
                rows.append(
                    {
                        "data": material.data,
                        "features": setting.title,
                        "lr": config.lr,
                        "C": config.max_grad_norm,
                        **summary([each["accuracy"] for each in found], "set aside, %"),
                        "in use": "yes" if rate == norm == 1.0 else "",
                    }
                )
    yield table("tuning", material, rows, settings)
