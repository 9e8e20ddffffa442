"""Features against pixels or hashed words, at equal epsilon, each with its own tuned settings."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from benchmarks.accuracy.records import Material
from benchmarks.accuracy.runs import joint, not_private, repeated, summary, table
from benchmarks.accuracy.settings import PLAIN, Setting, tuned
from benchmarks.tables import Table


def run(material: Material) -> Iterator[Table]:
    """Accuracy of a linear model on features and without them."""
    settings = {
        "none": PLAIN[material.data],
        "features": tuned(material.data, material.data_dir),
    }
    rows = [row for each in settings.values() for row in _rows(material, each)]
    yield table("features", material, rows, settings)


def _rows(material: Material, setting: Setting) -> list[dict[str, Any]]:
    features = material.features(setting)
    config = setting.config(
        records=len(features.train_x), classes=material.classes, epsilon=material.epsilon
    ).resolved()
    title = f"{setting.title}, run"
    private, clear = (
        repeated(title, material.seeds, partial(joint, material, setting, each, "iid"))
        for each in (config, not_private(config, setting))
    )
    common = {
        "data": material.data,
        "features": setting.title,
        "columns": features.train_x.shape[1],
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
