"""Options that several commands of `pea` have, beside the settings of a run and its records."""

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from extensions.checks import check_writable
from extensions.cli.pace import ONCE, Pace, pace_of
from extensions.errors import ArgumentError
from extensions.options import Writes
from extensions.owners.origin import FeatureExtraction
from extensions.privacy.sampling import check_sample_rate
from extensions.runs.config import TrainConfig
from extensions.runs.model import check_free
from extensions.runs.options import RunOptions

SETTLED = (
    *("data", "facts", "features", "max_feature_norm", "seed_data", "steps", "lr"),
    "sample_rate",
    "max_grad_norm",
    "rows_per_unit",
    "class_weights",
    *("noise_multiplier_init", "overflow_probability", "settled"),
)
"""Settings of a run that are not options of it, but follow from others."""


Report = Annotated[
    Path | None, typer.Option("--json", help="Write the report to this file."), Writes()
]


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How long a run trains, and how fast.

    Attributes:
        steps: number of updates (default 120; with a schema 20, and 40 with squared or
            least-squares).
        epochs: instead of steps: steps = epochs / rate.
        lr: learning rate; the update is lr / expected batch size times the noisy sum (default 10;
            mlp, squared or least-squares: 1).
        sample_rate: Poisson rate at which a step samples each record, in (0, 1] (default 0.1; with
            a schema 1).
        max_grad_norm: C, the bound of each example's gradient (default 1, squared and
            least-squares: 0.2).
    """

    steps: int | None = None
    epochs: float | None = None
    lr: float | None = None
    sample_rate: float | None = None
    max_grad_norm: float | None = None

    def pace(self, model: str, loss: str, *, schema: bool) -> Pace:
        """Returns how a model is trained.

        Raises:
            ArgumentError: steps and epochs together, or a value out of range.
        """
        usual = pace_of(model, loss, schema=schema)
        rate = check_sample_rate(
            usual.sample_rate if self.sample_rate is None else self.sample_rate
        )
        return Pace(
            steps=self._steps(rate, usual.steps),
            lr=usual.lr if self.lr is None else self.lr,
            sample_rate=rate,
            max_grad_norm=usual.max_grad_norm if self.max_grad_norm is None else self.max_grad_norm,
        )

    def pace_of_statistics(self) -> Pace:
        """Returns how statistics are summed: once.

        Raises:
            ArgumentError: an option of steps was given.
        """
        for field in fields(self):
            if (value := getattr(self, field.name)) is not None:
                allowed = "left out with --method statistics"
                raise ArgumentError(field.name, value, allowed, "All records are summed once.")
        return ONCE

    def _steps(self, rate: float, usual: int) -> int:
        if self.epochs is None:
            return usual if self.steps is None else self.steps
        if self.steps is not None:
            both = (self.steps, self.epochs)
            raise ArgumentError("steps, epochs", both, "at most one of them given")
        if not 0.0 < self.epochs < 1e6:
            raise ArgumentError("epochs", self.epochs, "positive, below 1e6")
        return max(1, round(self.epochs / rate))


def check_options(options: RunOptions) -> None:
    """Returns only if the run can be kept, and its model, and one that goes on has no material.

    Raises:
        ArgumentError: it is otherwise.
    """
    keep, material = options.checkpoints, options.material
    if keep is not None and keep.resume and material is not None:
        raise ArgumentError(
            "material",
            str(material),
            "left out with --resume",
            "It is of use once, from the first step on: resume with a running dealer.",
        )
    if options.players is not None:  # folders are theirs
        return
    if keep is not None:
        check_writable("checkpoint", keep.folder, folder=True)
        if keep.resume and not keep.folder.exists():
            advice = "If nothing was released, start again without --resume."
            raise ArgumentError("checkpoint", str(keep.folder), "a folder of checkpoints", advice)
    if options.save is not None:
        check_free(options.save, keep)


def config_of(
    run: TrainConfig,
    schedule: Schedule,
    extraction: FeatureExtraction,
    *,
    schema: bool = False,
    **settings: Any,
) -> TrainConfig:
    """Returns the settings of a run.

    Args:
        run: those that are options.
        schedule: how long it trains, and how fast.
        extraction: how its features are extracted.
        schema: whether its records are a table with a schema.
        settings: those that a command finds out.

    Raises:
        ArgumentError: one that is out of range.
    """
    if not run.private:
        _check_not_private(run)
    if run.method == "statistics":
        pace = schedule.pace_of_statistics()
    else:
        pace = schedule.pace(run.model, run.loss, schema=schema)
    return replace(
        run,
        **pace._asdict(),
        features=extraction.features,
        max_feature_norm=extraction.max_feature_norm,
        **settings,
    )


def _check_not_private(run: TrainConfig) -> None:
    """Returns only if nothing of a guarantee was given, which this run has not.

    Raises:
        ArgumentError: it was.
    """
    for name in ("epsilon", "noise_multiplier", "delta", "epsilon_init", "dealer_noise"):
        value = getattr(run, name)
        if value is not None and value is not False:
            raise ArgumentError(name, value, "left out with --no-dp", "Or leave --no-dp out.")
