"""The report of a training run, with the same keys for every backend."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from extensions.errors import ArgumentError
from extensions.layers.measures import KEYS
from extensions.layers.spec import ADDITIVE
from extensions.privacy.accounting import NEIGHBOURS, Ledger, Neighbours
from extensions.protocols.host import Traffic
from extensions.protocols.initialization import AVERAGING
from extensions.protocols.noise import noise_without
from extensions.protocols.noisy_sums.additive.training import COUNTS
from extensions.protocols.noisy_sums.whitening import WHITENING, Whitening
from extensions.protocols.settings import TRAINING
from extensions.runs.config import TrainConfig


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of a run.

    Attributes:
        quality: measures on held-out records by name (`extensions.layers.measures`), those that
            are counted.
        held_out_epsilon: what a noised count costs a held-out record; None without one.
        epsilons: what was spent on the model, in all processes; None without privacy.
        epsilons_without_noise: that, if noise of parties is missing; None without privacy.
        traffic: of training, its start included, of all parties.
        padding: bytes of it that rows beyond the expected samples take, the mean of the parties;
            None if they are not counted.
        seconds: of this process.
        opened: what was opened.
        resumed_from: steps from which an interrupted run was continued, in order.
        provider: who deals correlated randomness, or None.
        manifest: what is kept of the run's.
        records: number of each party that are trained on; of persons, where these have several.
        held_out: likewise, of records that are held out: of rows, whose ever they are.
        whitening: of their features, or None.
        widths: number of columns of each party, where these are of the same records.
        phases: what each part of the run took.
    """

    quality: Mapping[str, Any]
    held_out_epsilon: float | None
    epsilons: Mapping[Neighbours, float] | None
    epsilons_without_noise: Mapping[str, float] | None
    traffic: Traffic
    padding: int | None
    seconds: float
    opened: Sequence[str]
    resumed_from: Sequence[int] = ()
    provider: str | None = None
    manifest: Mapping[str, Any] = field(default_factory=dict)
    records: Sequence[int] = ()
    held_out: Sequence[int] = ()
    whitening: Whitening | None = None
    widths: Sequence[int] = ()
    phases: Sequence[Mapping[str, Any]] = ()


def epsilons_of(config: TrainConfig, ledger: Ledger) -> dict[Neighbours, float] | None:
    """Returns what a ledger comes to at the run's delta, by neighbours; None without privacy.

    Raises ArgumentError if nothing can be told for those of the run. For others it is infinite
    then.
    """
    if not config.private or config.delta is None:
        return None
    found: dict[Neighbours, float] = {}
    for each in NEIGHBOURS:
        try:
            found[each] = ledger.get_epsilon(config.delta, neighbours=each)
        except ArgumentError:
            if each == config.neighbours:
                raise
            found[each] = math.inf
    return found


def epsilons_without_noise(config: TrainConfig, ledger: Ledger) -> dict[str, float] | None:
    """Returns the run's epsilon if the noise of so many parties is missing; None without privacy.

    No party can see that another adds its noise. That of k parties is missing towards whoever sees
    the model if they leave theirs out, and towards those k in any case: so epsilon against a party
    is that of 1, and against a party that is joined, or left without noise, by another that of 2.
    With the dealer's noise the same is told without the dealer's, also of that alone: towards a
    party with which the dealer sides, or if its operator adds none. An owner's own noise, in the
    joint steps and in its local model, is always there for its records.

    Of more than four parties it is told of 1, 2, 3 and all but one; infinite where none can be
    told.
    """
    if not config.private or config.delta is None:
        return None
    numbers = sorted({*range(1, min(config.parties, 4)), config.parties - 1} - {0})
    missing = {str(number): (number, 0) for number in numbers}
    if config.dealer_noise:
        missing |= {"the dealer": (0, 1)}
        missing |= {f"{number} and the dealer": (number, 1) for number in numbers}
    found = {}
    for names, (owners, dealer) in missing.items():
        try:
            left = ledger.with_noise(TRAINING, _left(config, owners + dealer, config.dealer_noise))
            if config.split == "rows":  # else each owner draws all of its own
                for name in (WHITENING, COUNTS):
                    left = left.with_noise(name, _left(config, owners))
            epsilon = left.get_epsilon(config.delta, neighbours=config.neighbours)
        except ArgumentError:
            epsilon = math.inf
        found[names] = epsilon
    return found


def _left(config: TrainConfig, missing: int, dealer: bool = False) -> float:
    """How wide noise still is without some who add it, over what is accounted."""
    return noise_without(config.parties + dealer, missing, config)


def result(config: TrainConfig, outcome: Outcome) -> dict[str, Any]:
    """Returns the report of a run with these resolved settings, without the opened model."""
    epsilons = outcome.epsilons
    return {
        **{name: outcome.quality.get(name) for name in KEYS},
        "epsilon": None if epsilons is None else epsilons[config.neighbours],
        "epsilon_asked": config.epsilon if config.private else None,
        "delta": config.delta if config.private else None,
        "neighbours": None if epsilons is None else config.neighbours,
        "epsilon_by_neighbours": epsilons,
        "epsilon_without_noise_of": outcome.epsilons_without_noise,
        "held_out_epsilon": outcome.held_out_epsilon,
        "steps": config.steps,
        "resumed_from": list(outcome.resumed_from) or None,
        "rounds": outcome.traffic.rounds,
        "bytes_per_party": outcome.traffic.mean,
        "bytes_of_largest_party": outcome.traffic.largest,
        "padding_bytes_per_party": outcome.padding,
        "sent_bytes": [one.sent for one in outcome.traffic.carried],
        "received_bytes": [one.received for one in outcome.traffic.carried],
        "dealt_bytes": [one.dealt for one in outcome.traffic.carried],
        "seconds": round(outcome.seconds, 3),
        "phases": list(outcome.phases),
        "parties": config.parties,
        "backend": config.backend,
        "provider": outcome.provider,
        "data": config.data,
        "records": list(outcome.records),
        "held_out_records": list(outcome.held_out),
        "unit": whose(config),
        "rows_per_person": None if whose(config) is None else config.rows_per_unit,
        "features": config.features,
        "opened": list(outcome.opened),
        "open": config.open,
        "method": config.method,
        "model": config.model,
        "loss": config.loss,
        "noise_multiplier": config.noise_multiplier if config.private else None,
        "colluders": config.colluders if config.private else None,
        "dealer_noise": config.dealer_noise if config.private else None,
        "noise_multiplier_whiten": config.noise_multiplier_whiten,
        **_of_counts(config),
        "whiten_ridge": None if outcome.whitening is None else outcome.whitening.ridge,
        "sample_rate": config.sample_rate,
        "chosen": {name: getattr(config, name) for name in config.chosen} or None,
        "init": config.init,
        "noise_multiplier_init": config.noise_multiplier_init,
        "init_steps": None if config.strategy is None else config.local_steps,
        "init_weighting": config.init_weighting if config.init in AVERAGING else None,
        "insecure_seed": config.insecure_seed,
        "manifest": dict(outcome.manifest),
        **({"split": config.split, "columns": list(outcome.widths)} if outcome.widths else {}),
    }


def _of_counts(config: TrainConfig) -> dict[str, Any]:
    """What reports of additive models have, and no others."""
    if config.model != ADDITIVE:
        return {}
    return {"cells": config.cells, "noise_multiplier_counts": config.noise_multiplier_counts}


def whose(config: TrainConfig) -> str | None:
    """Returns whose epsilon it is, where that is a person's of several records; else None."""
    unit = config.facts.get("schema unit")
    if unit is None:
        return None
    return (
        f"a person of column {unit['column']}, with at most {config.rows_per_unit} rows at each "
        "owner; one whom several owners have counts once at each"
    )


def as_json(report: Mapping[str, Any]) -> str:
    """Returns a report as JSON, in which a number that is not finite is null."""
    return json.dumps(_finite(report), indent=2, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
