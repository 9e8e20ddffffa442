"""What a run will take, from public facts alone: before there are parties, or records."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from extensions.checks import check_left_out
from extensions.data.schema import read_schema
from extensions.errors import ArgumentError
from extensions.layers.spec import ADDITIVE
from extensions.protocols.host import StepForecast
from extensions.protocols.noisy_sums.additive.training import most_opened
from extensions.protocols.records import Records
from extensions.protocols.step import Step
from extensions.rules import Whole
from extensions.runs.config import TrainConfig
from extensions.runs.config.additive import bins_told
from extensions.runs.config.run_time import openly
from extensions.runs.hosts import Backend
from extensions.runs.hosts import plan as plan_step


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Public facts about records that need not exist.

    Attributes:
        records: number of training records of each party, such as 800,1000,700; one number: of all.
        columns: features of a record, of all owners; of images all their values, such as 784.
        classes: number of classes.
        schema: TOML file of a table's columns and what to learn, instead of these two.
        max_feature_norm: public bound of the norm of a record's features.
    """

    records: str
    columns: int | None = None
    classes: int = 10
    schema: Path | None = None
    max_feature_norm: float = 1.0

    def known(self) -> tuple[int, dict[str, Any]]:
        """Returns the number of features, and the settings that follow from what is said."""
        if self.schema is None:
            if self.columns is None:
                raise ArgumentError("columns", None, "or {schema}", code="missing")
            return self.columns, {"classes": self.classes}
        check_left_out("with {schema}", columns=self.columns)
        schema = read_schema(self.schema)
        schema.check_confirmed()
        return len(schema.features), schema.settings

    def of(self, parties: int) -> list[int]:
        """Returns the number of records of each party."""
        words = self.records.split(",")
        numbers = all(word.strip().isdecimal() and len(word) < 12 for word in words)
        if not numbers or not sum(map(int, words)):
            allowed = "a number for each party, such as 800,1000,700, or one for all; not all 0"
            raise ArgumentError("records", self.records, allowed)
        sizes = [int(word) for word in words]
        return sizes * parties if len(sizes) == 1 else sizes


class Planned(NamedTuple):
    """A run before there are records: its resolved settings, and what a step takes."""

    config: TrainConfig
    made: Step | None
    records: Records
    step: StepForecast


def foreseen(engine: Backend, config: TrainConfig, sizes: Sequence[int], columns: int) -> Planned:
    """Returns what a run comes to, of so many records of each party.

    Raises:
        ArgumentError: settings that do not fit, or no noise that meets epsilon.
    """
    resolve = config.resolving(config.records_of(sizes))
    config = resolve(lambda usual: engine.noise_failure(usual, columns))
    records = announced(config, sizes, columns)
    made = None if config.model == ADDITIVE else Step.of(config, records)
    if made is not None and config.hidden:
        step = plan_step(engine, config, made, records)
    else:
        step = openly(config, columns)
    return Planned(config, made, records, step)


def announced(config: TrainConfig, sizes: Sequence[int], features: int) -> Records:
    """Returns records of which there is nothing but their numbers, one a party."""
    if config.method != "pea":
        advice = "`pea plan` estimates steps, and statistics is a single sum."
        raise ArgumentError("method", config.method, "'pea'", advice)
    if len(sizes) != config.parties or min(sizes) < 0 or not sum(sizes):
        shown = ",".join(map(str, sizes))
        raise ArgumentError("records", shown, f"{config.parties} numbers, not all 0", code="shape")
    if config.split == "rows":
        return Records((), tuple(sizes), features)
    parties = config.parties
    Whole(parties, words=f"at least {parties}, one for each party").check("columns", features)
    widths = tuple((features + rank) // parties for rank in range(parties))
    outputs = (config.outputs, *[0] * (parties - 1))
    return Records((), (sizes[0],), features, widths, outputs)


def forecast(
    config: TrainConfig, made: Step | None, records: Records, step: StepForecast
) -> dict[str, Any]:
    """Returns what is public of a run, and what it takes, by name."""
    once = {"rounds": step.rounds, "bytes": step.bytes, "memory": step.memory}
    if made is None:
        assert config.grid is not None
        return {
            "backend": config.backend,
            "parties": config.parties,
            "model": config.model,
            "columns": len(config.grid.columns),
            "cells": config.grid.size,
            "bins_told_from_noise": bins_told(config, sum(records.sizes)),
            "numbers_opened": most_opened(config.grid, config.classes),
            "steps": config.steps,
            "step": once,
        }
    plan = made.plan
    each = zip(made.network.parameter_shapes, plan.layers, plan.ways, strict=True)
    return {
        "backend": config.backend,
        "parties": config.parties,
        "model": config.model,
        "parameters": plan.parameters,
        "layers": [
            {"inputs": n, "outputs": m, "positions": shape.positions, "norms": way}
            for (m, n), shape, way in each
        ],
        "rows": records.rows(config),
        "pieces": records.pieces(config),
        "sensitivity": plan.max_grad_norm * (1 + plan.eta),
        "steps": config.steps,
        "step": once,
    }
