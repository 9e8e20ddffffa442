"""Settings that do not go together: for each rule a run that breaks it, and no other."""

from typing import Any

import pytest

from extensions.layers.models.start_file import COUNTED, PREFIX
from extensions.runs.config import TrainConfig
from extensions.runs.config.cross_rules import RULES
from tests.helpers.refused import refused

USUAL: dict[str, Any] = {"noise_multiplier": 1.0, "delta": 1e-5}
LOCAL: dict[str, Any] = {"init": "local-average", "noise_multiplier_init": 1.0}
CHOSEN: dict[str, Any] = {**LOCAL, "init": "local-accuracy"}
ALL: dict[str, Any] = {**LOCAL, "init": "local"}
WHITE: dict[str, Any] = {"whiten": True, "noise_multiplier_whiten": 4.0}
TWO: dict[str, Any] = {"classes": 2, "one_output": True}
NUMBER: dict[str, Any] = {"classes": 1, "loss": "squared"}
STATISTICS: dict[str, Any] = {"method": "statistics", "loss": "least-squares"}
EACH_STEP: dict[str, Any] = {"open": "each-step"}
TERMS: dict[str, Any] = {"model": "additive", "open": "each-step"}
LORA: dict[str, Any] = {
    **EACH_STEP,
    "model": "lora:2:16:64:64",
    "features": "hf:f,inputs",
}
IMAGES: dict[str, Any] = {"model": "lenet"}
COLUMNS: dict[str, Any] = {"split": "columns"}
FILE = "a" * 64


def opened(way: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Returns what breaks the rules of a way whose sums are opened."""
    return [
        ("optimizer", {**way, "optimizer": "adam"}),
        ("physical_rows", {**way, "physical_rows": 8}),
        ("evaluate", {**way, "evaluate": "opened"}, "choice"),
        ("private", {**way, "private": False}),
        ("dealer_noise", {**way, "dealer_noise": True}),
        ("provider", {**way, "provider": "tfp"}),
    ]


BREAKS: list[tuple[Any, ...]] = [
    ("parties", {"parties": 1}, "range"),
    ("parties", {"parties": 5, "provider": "parties"}, "range"),
    ("colluders", {"colluders": 3}, "range"),
    ("dealer_noise", {"dealer_noise": True, "provider": "tfp"}),
    ("parties", {"dealer_noise": True, "parties": 1, "backend": "clear"}, "range"),
    ("dealer_noise", {"dealer_noise": True, "insecure_seed": 3}),
    ("loss", {"classes": 1, "facts": {"schema target": "age"}}, "choice"),
    ("classes", {"classes": 1}, "range"),
    ("classes", {"classes": 129, "loss": "softmax"}, "range"),
    ("class_weights", {"class_weights": (0.5,)}, "shape"),
    ("one_output", {**TWO, "loss": "softmax"}),
    ("one_output", {**TWO, "class_weights": (1.0, 0.5)}),
    ("one_output", {**TWO, **CHOSEN}),
    ("one_output", {**TWO, **ALL}),
    ("cheap", {"cheap": True, "model": "mlp:4"}),
    ("max_grad_norm", {"max_grad_norm": 1e6}, "range"),
    ("max_feature_norm", {"max_feature_norm": 1500.0}, "range"),
    ("max_weight_norm", {"max_weight_norm": 399.0}, "range"),
    ("momentum", {"momentum": 0.5, "optimizer": "adam"}),
    ("beta1", {"beta1": 0.5}),
    ("beta2", {"beta2": 0.99}),
    ("adam_floor", {"adam_floor": 0.5}),
    ("features", {**IMAGES, "features": "scattering"}, "choice"),
    ("whiten", {**IMAGES, **WHITE}),
    ("init", {"init": "guess"}, "choice"),
    ("init", {"init": "zero", "model": "mlp:4"}, "choice"),
    ("whiten", {**WHITE, "init": PREFIX + FILE}),
    ("epsilon_init", {"epsilon_init": 1.0}),
    ("noise_multiplier_init", {"noise_multiplier_init": 1.0}),
    ("init_steps", {"init_steps": 5}),
    ("init_lr", {"init_lr": 0.1}),
    ("init_weighting", {"init_weighting": "uniform"}),
    ("init", {"evaluate": "noisy", "init": COUNTED + FILE}),
    ("init", {**NUMBER, **CHOSEN}),
    ("init", {**NUMBER, **ALL}),
    ("open", {**STATISTICS, "open": "each-step"}, "choice"),
    ("model", {**STATISTICS, "model": "mlp:4"}, "choice"),
    ("loss", {"method": "statistics"}, "choice"),
    ("init", {**STATISTICS, "init": "random"}),
    ("class_weights", {**STATISTICS, "class_weights": (0.5,) * 10}),
    ("whiten", {**STATISTICS, **WHITE}),
    ("one_output", {**STATISTICS, **TWO}),
    ("lr_schedule", {**STATISTICS, "lr_schedule": "linear"}),
    ("momentum", {**STATISTICS, "momentum": 0.5}),
    ("average", {**STATISTICS, "average": 0.5}),
    ("bias_scale", {**STATISTICS, "bias_scale": 0.5}),
    ("open", {"model": "additive"}, "choice"),
    ("features", {**TERMS, "features": "hog"}, "choice"),
    ("init", {**TERMS, "init": "random"}),
    ("whiten", {**TERMS, **WHITE}),
    ("one_output", {**TERMS, **TWO}),
    ("lr_schedule", {**TERMS, "lr_schedule": "linear"}),
    ("momentum", {**TERMS, "momentum": 0.5}),
    ("average", {**TERMS, "average": 0.5}),
    ("bias_scale", {**TERMS, "bias_scale": 0.5}),
    ("max_feature_norm", {**TERMS, "max_feature_norm": 0.5}),
    ("max_grad_norm", {**TERMS, "max_grad_norm": 0.5}),
    ("loss", {**TERMS, **NUMBER, "loss": "least-squares", "facts": {"schema target": 1}}, "choice"),
    ("loss", {**TERMS, "loss": "hard-sigmoid", "facts": {"schema target": 1}}, "choice"),
    ("features", {**LORA, "features": "hf:f"}, "value"),
    ("open", {**LORA, "open": "never"}, "choice"),
    ("init", {**LORA, "init": "zero"}, "value"),
    ("whiten", {**LORA, **WHITE}),
    ("one_output", {**LORA, **TWO}),
    ("bias_scale", {**LORA, "bias_scale": 0.5}),
    ("max_feature_norm", {**LORA, "max_feature_norm": 0.5}),
    ("init", {**EACH_STEP, **LOCAL}),
    ("parties", {**COLUMNS, "parties": 1, "backend": "clear"}, "range"),
    ("method", {**COLUMNS, **STATISTICS}, "choice"),
    ("open", {**COLUMNS, **EACH_STEP}, "choice"),
    ("evaluate", {**COLUMNS, "evaluate": "opened"}, "choice"),
    ("rows_per_unit", {**COLUMNS, "rows_per_unit": 2}, "choice"),
    ("init", {**COLUMNS, **LOCAL}),
    ("split", {**COLUMNS, **IMAGES}, "choice"),
    *opened(EACH_STEP),
    *opened(STATISTICS),
    ("epsilon, noise_multiplier", {"epsilon": 1.0}, "privacy"),
    ("epsilon_init, noise_multiplier_init", {"init": "local-average"}, "privacy"),
    (
        "epsilon_init",
        {"init": "local-average", "epsilon": 1.0, "epsilon_init": 1.0, "noise_multiplier": None},
        "range",
    ),
    ("delta", {"delta": 0.5}, "range"),
    ("whiten_share", {"whiten_share": 0.1}),
    ("whiten_ridge", {"whiten_ridge": 5.0}),
    ("noise_multiplier_whiten", {"noise_multiplier_whiten": 4.0}),
    ("whiten_share", {**WHITE, "whiten_share": 0.1}),
    ("noise_multiplier_whiten", {"whiten": True}, "missing"),
    ("noise_multiplier_whiten", {**WHITE, "epsilon": 2.0, "noise_multiplier": None}),
    ("whiten_ridge", {**WHITE, "noise_multiplier_whiten": 0.0}, "missing"),
]
"""In the order of the table; the code is "conflict" where none is named."""


class Unchecked(TrainConfig):
    """Settings that nobody has checked."""

    def __post_init__(self) -> None:
        """Checks nothing."""


def test_every_rule_has_a_run_that_breaks_it():
    assert [field for field, *_ in BREAKS] == [rule.field for rule in RULES]


@pytest.mark.parametrize(
    ("number", "broken"),
    [*enumerate(BREAKS)],
    ids=[f"{i}-{each[0]}" for i, each in enumerate(BREAKS)],
)
def test_a_run_that_breaks_one_rule_is_refused_by_it(number, broken):
    field, settings, code = (*broken, "conflict")[:3]
    config = Unchecked(**{**USUAL, **settings})
    assert [i for i, rule in enumerate(RULES) if rule.broken(config) is not None] == [number]
    values = tuple(getattr(config, name) for name in field.split(", "))
    with refused(field, code, values if len(values) > 1 else values[0]) as caught:
        TrainConfig(**{**USUAL, **settings})
    assert caught.value.hint == RULES[number].why


@pytest.mark.parametrize(
    ("field", "code", "value", "settings"),
    [
        ("one_output", "conflict", True, {"one_output": True}),
        ("steps, sample_rate", "choice", (120, 0.1), STATISTICS),
    ],
)
def test_what_is_known_later_is_checked_then(field, code, value, settings):
    config = TrainConfig(**{**USUAL, **settings})
    with refused(field, code, value):
        config.resolved()
