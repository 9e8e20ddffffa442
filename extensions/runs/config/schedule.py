"""The settings of a run as somebody gives them: those that need not be given follow from others."""

from dataclasses import dataclass, replace
from typing import Annotated, Any

from extensions.data.features.combined import with_inputs
from extensions.data.features.networks.adapters import adapted
from extensions.data.origin import FeatureExtraction
from extensions.errors import ArgumentError
from extensions.layers.losses import Loss
from extensions.layers.models.custom import named
from extensions.layers.models.lora import LoraSizes, rank_of
from extensions.options import Option
from extensions.runs.config.cross_rules import NOTHING_PRIVATE, check_rules
from extensions.runs.config.defaults import MODEL, Defaults
from extensions.runs.config.run_config import Kind, RunConfig
from extensions.runs.config.train import TrainConfig

AUTO = "auto"
"""The model that is chosen by what records are and how many."""

DERIVED = (
    *("data", "facts", "features", "max_feature_norm", "seed_data"),
    *("steps", "epochs", "lr", "sample_rate", "max_grad_norm"),
    *("momentum", "average", "bias_scale", "whiten", "one_output", "loss"),
    *("whiten_share", "whiten_ridge", "noise_multiplier_whiten"),
    *("data_kind", "cheap", "chosen", "frac_bits", "rows_per_unit", "class_weights"),
    *("noise_multiplier_init", "noise_multiplier_counts", "cells"),
    *("overflow_probability", "settled"),
)
"""Settings of a run that are not options of it, but of `Schedule`, or follow from others."""


@dataclass(frozen=True, kw_only=True)
class Asked(RunConfig):
    """Settings of a run as options give them, each in its range; `config_of` checks them all.

    Attributes:
        model: kind of model: logistic, mlp:H with H hidden units (or mlp:H1,H2), lenet or cnn for
            images, or your own module:function, which lists the layers. If each step is opened,
            also additive (a curve for each column of a table) or lora:RANK (adapters of the encoder
            that features names, hf:FOLDER). auto: additive if possible and if noise leaves two bins
            a column, else logistic.
    """

    model: Annotated[str, Option(parse=named)] = AUTO

    def __post_init__(self) -> None:
        """They are checked once, with those that are no options."""


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Settings that need not be given: they follow from numbers and kind of the records.

    Attributes:
        data_kind: kind of the records: images, texts or tables. Defaults follow it (by default it
            is read from the records).
        cheap: take 10 steps at rate 0.2 (for large tables 20 at 0.1): half the bytes or fewer, 0.1
            to 0.3 points less accurate.
        steps: number of updates (default: images 10, texts 20, or both 25 if each step is opened;
            tables 40; below 5,000 records 15, or 20 for tables; hidden layers 120).
        epochs: number of epochs, instead of steps: steps = epochs / rate.
        lr: learning rate; the update is lr / expected batch size times the noisy sum (default: as
            high as the noise allows; 1 for hidden layers, adam, squared or least-squares).
        sample_rate: Poisson rate at which a step samples each record, in (0, 1] (default: 1, but
            0.1 for tables of 5,000 records or more, unless each step is opened).
        max_grad_norm: C, the bound of each example's gradient (default: images and texts 0.25, few
            images and tables 0.5; squared or least-squares 0.2, hidden layers 1).
        momentum: momentum coefficient, in 0..0.999 (default 0.5; hidden layers 0).
        average: average the models of this last fraction of the steps, in 0..1; 0: take the last
            model (default 0.4; hidden layers 0).
        bias_scale: constant input of biases, a power of two up to 1. A smaller one leaves more of
            each gradient's bound to the features; 0: no biases (default: images and texts 0, tables
            0.25, hidden layers 1).
        whiten: multiply features by the inverse square root of a noisy sum of x x^T over all
            training features. The sum is opened (default: images, with a target epsilon).
        frac_bits: fractional bits of the ring (default 20; fewer for large batches, whose sums need
            room: 19 for 60,000 records).
        whiten_share: share of the budget, 1 / sigma^2, for whitening (default 0.15).
        whiten_ridge: number added to the sum's eigenvalues; by default it follows from the noise.
        noise_multiplier_whiten: standard deviation of whitening's noise, over the most that a
            record adds; needs noise_multiplier.
        one_output: for two classes, train one output and halve the traffic. The saved model has
            both (default: texts and tables).
        loss: kind of loss: sigmoid or hard-sigmoid (each class against the others), softmax (over
            all classes), squared (a number in the schema's range, or each class), or least-squares
            (like squared, but unclipped: fewest rounds). (Default: sigmoid, or hard-sigmoid for
            images of several classes unless each step is opened, because it sends fewer bytes.)
    """

    data_kind: Kind | None = None
    cheap: bool = False
    steps: int | None = None
    epochs: float | None = None
    lr: float | None = None
    sample_rate: float | None = None
    max_grad_norm: float | None = None
    momentum: float | None = None
    average: float | None = None
    bias_scale: float | None = None
    whiten: bool | None = None
    frac_bits: int | None = None
    whiten_share: float | None = None
    whiten_ridge: float | None = None
    noise_multiplier_whiten: float | None = None
    one_output: bool | None = None
    loss: Loss | None = None

    def settings(self) -> dict[str, Any]:
        """Returns what is given, by name, and as `chosen` what is not.

        Raises:
            ArgumentError: steps and epochs together.
        """
        if None not in (self.steps, self.epochs):
            both = (self.steps, self.epochs)
            raise ArgumentError("steps, epochs", both, "{steps} or {epochs}", code="either")
        given = {name: value for name, value in vars(self).items() if value is not None}
        chosen = (name for name in Defaults._fields if name not in given)
        return {**given, "chosen": tuple(chosen)}


def config_of(
    run: Asked, schedule: Schedule, extraction: FeatureExtraction, **settings: Any
) -> TrainConfig:
    """Returns the settings of a run.

    Args:
        run: those that are options.
        schedule: those that need not be given.
        extraction: how its features are extracted.
        settings: those that a command finds out.

    Raises:
        ArgumentError: one that is out of range.
    """
    check_rules(run, NOTHING_PRIVATE)
    features = extraction.features or run.features
    if run.model == AUTO:
        settings = {**settings, "model": RunConfig.model}
    if (rank := rank_of(run.model)) is not None:
        settings = {"model": _adapters_of(features, rank), **settings}
    known = {"features": features, "max_feature_norm": extraction.max_feature_norm, **settings}
    chosen = schedule.settings()
    if run.model == AUTO and run.open == "each-step":
        chosen["chosen"] = (*chosen["chosen"], MODEL)
    config = TrainConfig(**vars(run) | known | chosen)
    if run.method == "statistics":
        _check_once(schedule)
    return config


def inputs_for(model: str, extraction: FeatureExtraction) -> FeatureExtraction:
    """Returns how records are read for a model: for adapters as their encoder reads them."""
    if rank_of(model) is None:
        return extraction
    features = extraction.features or ""
    if not features.startswith("hf:"):
        rule = "hf:NAME_OR_FOLDER (an encoder on this machine) with {model=lora:RANK}"
        raise ArgumentError("features", extraction.features, rule)
    return replace(extraction, features=with_inputs(features))


def _adapters_of(features: str, rank: int) -> str:
    """The name of the model that has adapters of the encoder of these features."""
    encoder = adapted(features, rank)
    numbers = [m * n for m, n in encoder.shapes]
    count = len(encoder.layers)
    return LoraSizes(rank, encoder.hidden, sum(numbers[:count]), sum(numbers[count:])).text


def found_of(config: TrainConfig, schedule: Schedule, **settings: Any) -> TrainConfig:
    """Returns settings with those that a command finds out; they are checked when resolved."""
    given = schedule.settings()
    model = [name for name in config.chosen if name == MODEL]
    return config.derived(**settings | given | {"chosen": (*given["chosen"], *model)})


def _check_once(schedule: Schedule) -> None:
    """Checks that nothing is said of steps where all records are summed once.

    Raises:
        ArgumentError: something is.
    """
    for name in ("steps", "epochs", "lr", "sample_rate", "max_grad_norm"):
        if (value := getattr(schedule, name)) is not None:
            rule, hint = "with {method=statistics}", "All records are summed once."
            raise ArgumentError(name, value, rule, hint, code="conflict")
