"""The accountant against the paper's formula sigma = 2 C sqrt(T ln(1/delta)) / epsilon."""

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from benchmarks.accuracy.records import Material
from benchmarks.accuracy.runs import joint, repeated, summary, table
from benchmarks.accuracy.settings import tuned
from benchmarks.tables import Table
from extensions.privacy.accounting import epsilon

EPSILONS = (0.25, 0.5, 1.0, 2.0)


def run(material: Material) -> Iterator[Table]:
    """Accuracy by claimed epsilon, with the noise of either, and what each noise is worth."""
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
