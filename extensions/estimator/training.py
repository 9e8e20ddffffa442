"""A run from records in memory: all owners in this program, or this party among others."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from extensions.data.datasets import Split, in_memory
from extensions.data.origin import FeatureExtraction
from extensions.errors import ArgumentError
from extensions.estimator.encoders import Encoder, extraction_of
from extensions.runs.budget.forecast import foreseen
from extensions.runs.config import TrainConfig
from extensions.runs.config.run_time import forecast_run
from extensions.runs.config.schedule import Asked, Schedule, config_of, found_of, inputs_for
from extensions.runs.hosts import Backend, default_speed, find_for, warm_up
from extensions.runs.local_data import check_classes
from extensions.runs.model import OpenedModel, opened_of
from extensions.runs.options import Meeting, RunOptions

_TITLE = "records in memory"


def trained(
    run: Asked,
    schedule: Schedule,
    features: Encoder,
    parts: Sequence[Split],
    ledger: str | Path | None,
) -> tuple[OpenedModel, dict[str, Any]]:
    """Returns the model of a run over all owners' records, and its report."""
    engine, config, extraction = _begun(run, schedule, features, parts)
    of_all = None if ledger is None else Path(ledger)
    options = RunOptions(ledgers=[of_all, *[None] * (len(parts) - 1)])
    with ExitStack() as stack:
        resolve = config.resolving(sum(part.drawn for part in parts))
        stack.enter_context(warm_up(engine, config, options))
        resolve(lambda usual: 0.0)  # what no noise can meet is told before features are taken
        taken = extraction.extract(parts, lambda *_: None)
        width = taken[0].public.features
        files = stack.enter_context(in_memory(taken))
        check_classes(config, taken, of_all=True)
        config = resolve(lambda usual: engine.noise_failure(usual, width))
        report = engine.train(config, files, lambda event: None, options)
    return _model_of(report)


def party_model(
    run: Asked,
    schedule: Schedule,
    features: Encoder,
    own: Split,
    federation: str | Path,
    key: str | Path | None,
    ledger: str | Path | None,
) -> tuple[OpenedModel, dict[str, Any]]:
    """Returns the model of a run in which this program is one party, and its report."""
    from extensions.transport import Local  # without it nothing here needs cryptography

    if key is None:
        raise ArgumentError("key", None, "with {federation}", code="missing")
    local = Local.read(Path(federation), Path(key))
    if local.rank is None:
        raise ArgumentError("key", str(key), "the key of a party of the federation", code="file")
    if run.delta is None:
        raise ArgumentError(
            "delta", None, "with {federation}, the same at all parties", code="missing"
        )
    run = replace(run, parties=len(local.federation.parties))
    meeting = Meeting(rank=local.rank, rendezvous=f"tls://{federation}", key=Path(key))
    options = RunOptions(ledgers=[None if ledger is None else Path(ledger)])
    engine, config, extraction = _begun(run, schedule, features, [own])
    engine.check_party(config, meeting, options)
    (taken,) = extraction.extract([own], lambda *_: None)
    check_classes(config, [taken])
    with in_memory([taken]) as (file,):
        report = engine.train_party(config, file, meeting, lambda event: None, options)
    return _model_of(report)


def plan_of(
    run: Asked, schedule: Schedule, features: Encoder, parts: Sequence[Split]
) -> dict[str, Any]:
    """Returns what a run takes and spends, about, by name."""
    engine, config, extraction = _begun(run, schedule, features, parts)
    sizes = [part.drawn for part in parts]
    config, _, records, step = foreseen(engine, config, sizes, extraction.width(parts[0]))
    found = forecast_run(config, records, 0, step, default_speed(engine, 0.0))
    return {
        "epsilon": config.epsilon,
        "delta": config.delta,
        "noise_multiplier": config.noise_multiplier,
        "steps": config.steps,
        "sample_rate": config.sample_rate,
        "lr": config.lr,
        "rounds": found.rounds,
        "bytes": found.bytes,
        "seconds": found.seconds,
    }


def _begun(
    run: Asked, schedule: Schedule, features: Encoder, parts: Sequence[Split]
) -> tuple[Backend, TrainConfig, FeatureExtraction]:
    """Returns engine, settings and extraction, with what follows from the records."""
    if run.delta is None and run.epsilon is not None:
        run = replace(run, delta=1 / (10 * sum(part.drawn for part in parts)))
    extraction = inputs_for(run.model, extraction_of(features))
    config = config_of(run, schedule, extraction, data=_TITLE)
    linear = config.model == TrainConfig.model
    named, _ = extraction.chosen(parts[0].train_x, linear=linear, hidden=config.hidden)
    known = {**parts[0].settings, "features": named.features}
    return find_for(config), found_of(config, schedule, **known), named


def _model_of(report: dict[str, Any]) -> tuple[OpenedModel, dict[str, Any]]:
    model = opened_of(report)
    assert model is not None, "a run that opens its model returns it"
    return model, report
