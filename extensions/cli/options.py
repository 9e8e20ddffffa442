"""Options that several commands of `pea` have, beside the settings of a run and its records."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from extensions.errors import ArgumentError
from extensions.owners.origin import FeatureExtraction
from extensions.runs.config import TrainConfig
from extensions.runs.options import RunOptions

SETTLED = (
    *("data", "facts", "features", "max_feature_norm", "seed_data", "steps", "lr"),
    *("noise_multiplier_init", "overflow_probability", "settled"),
)
"""Settings of a run that are not options of it, but follow from others."""


Report = Annotated[Path | None, typer.Option("--json", help="Write the report to this file.")]


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How long a run trains, and how fast.

    Attributes:
        steps: number of updates (default 120).
        epochs: instead of steps: steps = epochs / rate.
        lr: learning rate of the averaged noisy sum (default 10, mlp: 1).
    """

    steps: int | None = None
    epochs: float | None = None
    lr: float | None = None

    def steps_at(self, sample_rate: float) -> int:
        """Returns the number of updates.

        Raises:
            ArgumentError: steps and epochs together, or epochs out of range.
        """
        if self.epochs is None:
            return TrainConfig.steps if self.steps is None else self.steps
        if self.steps is not None:
            both = (self.steps, self.epochs)
            raise ArgumentError("steps, epochs", both, "at most one of them given")
        if not 0.0 < self.epochs < 1e6:
            raise ArgumentError("epochs", self.epochs, "positive, below 1e6")
        return max(1, round(self.epochs / sample_rate))

    def lr_of(self, model: str) -> float:
        """Returns the learning rate of a model."""
        usual = TrainConfig.lr if model == "logistic" else 1.0
        return usual if self.lr is None else self.lr


def check_options(options: RunOptions) -> None:
    """Returns only if a run that goes on has no prepared material.

    Raises:
        ArgumentError: it has.
    """
    keep, material = options.checkpoints, options.material
    if keep is not None and keep.resume and material is not None:
        raise ArgumentError(
            "material",
            str(material),
            "left out with --resume",
            "It is of use once, from the first step on: resume with a running dealer.",
        )


def config_of(
    run: TrainConfig, schedule: Schedule, extraction: FeatureExtraction, **settings: Any
) -> TrainConfig:
    """Returns the settings of a run.

    Args:
        run: those that are options.
        schedule: how long it trains, and how fast.
        extraction: how its features are extracted.
        settings: those that a command finds out.

    Raises:
        ArgumentError: one that is out of range.
    """
    return replace(
        run,
        steps=schedule.steps_at(run.sample_rate),
        lr=schedule.lr_of(run.model),
        features=extraction.features,
        max_feature_norm=extraction.max_feature_norm,
        **settings,
    )
