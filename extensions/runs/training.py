"""One run of Protocol 5 on any host, from records to a report."""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from extensions.data.datasets import Recipe, Split
from extensions.errors import ArgumentError
from extensions.layers.models.start_file import OWES
from extensions.layers.passes import Parameters
from extensions.protocols import pea
from extensions.protocols.agreement import Exchange, Statement, check_equal, common_name
from extensions.protocols.host import Host, pairs
from extensions.protocols.noisy_sums.algorithms import agree_on_algorithm
from extensions.protocols.noisy_sums.whitening import Whitening, whitened
from extensions.protocols.records import Records
from extensions.public import Public
from extensions.runs.budget import Reservations
from extensions.runs.budget.planned_cost import entries_of
from extensions.runs.callbacks import CheckpointCallback, DryRun, Progress, ProgressCallback
from extensions.runs.checkpoints import run_settings
from extensions.runs.config import TrainConfig
from extensions.runs.local_data import local_data
from extensions.runs.manifest import manifest_of
from extensions.runs.model import (
    Header,
    LocalShareStore,
    SharedModel,
    ShareStore,
    header_of,
    whitening_arrays,
)
from extensions.runs.options import RunOptions
from extensions.runs.outputs import Outputs
from extensions.runs.report import Outcome, epsilons_of, epsilons_without_noise, result

Enter = Callable[[str], tuple[pea.LocalData, Reservations]]
"""Given a run's name, returns what a program has of its owners, who have entered the run."""


def run(
    host: Host,
    config: TrainConfig,
    parts: Sequence[Split],
    progress: Progress,
    options: RunOptions,
    provider: str | None = None,
) -> dict[str, Any]:
    """Returns the report of a run of this program's parties; all programs return the same.

    The host's ranks have the parts; the provider is named in the report. Raises ArgumentError if
    records or settings do not fit, the run cannot be resumed, or an owner's cap does not allow it,
    and PeaError if another continuation of the run was finished.
    """

    def enter(name: str) -> tuple[pea.LocalData, Reservations]:
        return _entered(host, config, parts, options.ledgers, name)

    public = [part.public for part in parts]
    return run_with(host, config, public, enter, progress, options, provider)


def run_with(
    host: Host,
    config: TrainConfig,
    parts: Sequence[Public],
    enter: Enter,
    progress: Progress,
    options: RunOptions,
    provider: str | None = None,
    shelves: ShareStore | None = None,
) -> dict[str, Any]:
    """Returns the report of a run whose records are wherever their owners have them; see `run`.

    `enter` is called once, before anything is shared. Shares of the host's holders are kept on the
    shelves, by default here.
    """
    callbacks: ProgressCallback
    shelves = shelves or LocalShareStore(host.holders)
    manifest = manifest_by(host, config, parts, options)
    if options.save is not None:
        shelves.check_free(options.save, options.checkpoints)
    if options.checkpoints is None:
        callbacks = ProgressCallback(host, config, manifest, progress)
    else:
        sizes = [part.facts(rank) for rank, part in zip(host.ranks, parts, strict=True)]
        settings = run_settings(manifest.kept, config.steps, sizes)
        parties = shelves.checkpoints(options.checkpoints, settings)
        callbacks = CheckpointCallback(host, config, manifest, progress, parties)
    own, callbacks.budget = enter(callbacks.entry)
    host.measure_speed()
    host.begin(manifest.digest)
    save = None if options.save is None else partial(shelves.save, options.save)
    try:
        recipes = [part.recipe for part in parts]
        return _run(host, config, own, callbacks, recipes, save, provider)
    except BaseException:
        if not callbacks.kept:
            callbacks.budget.free()
        raise


def resolved_settings(exchange: Exchange, config: TrainConfig, own: Public) -> TrainConfig:
    """Returns the resolved settings of a run whose parties meet before they know all sizes.

    One round; nothing is asked if they are resolved.
    """
    if config.settled or not config.chosen:
        return config.resolved()
    sizes = exchange([[own.records]])
    return config.resolved(records=config.records_of([int(size) for (size,) in sizes]))


def manifest_by(
    host: Host, config: TrainConfig, parts: Sequence[Public], options: RunOptions
) -> Statement:
    """Returns the manifest of a run, as the parties of this program state it.

    Args:
        host: whose parties own the records.
        config: resolved settings.
        parts: what is public of the records of each rank of the host.
        options: of the parties.

    Raises:
        ArgumentError: they state different ones; what differs is named.
    """
    stated = {
        rank: manifest_of(config, options, part, host.software)
        for rank, part in zip(host.ranks, parts, strict=True)
    }
    check_equal(stated)
    return next(iter(stated.values()))


def check(host: Host, config: TrainConfig, parts: Sequence[Split], options: RunOptions) -> None:
    """Checks that all parties could begin a run; nothing is shared or used up; one round.

    What does not fit, or an owner's cap, is an ArgumentError in every party.
    """
    manifest = manifest_by(host, config, [part.public for part in parts], options)
    own, budget = _entered(host, config, parts, options.ledgers, secrets.token_hex(5))
    budget.free()
    agree_on_algorithm(host, config, own, manifest, config.grid, config.encoder)


def rehearse(host: Host, config: TrainConfig, parts: Sequence[Split], steps: int) -> None:
    """Does all that a run does, but for so many steps only."""
    manifest = manifest_by(host, config, [part.public for part in parts], RunOptions())
    own = local_data(host, config, parts, steps)
    recipes = [part.recipe for part in parts]
    _run(host, config, own, DryRun(host, config, manifest, steps), recipes)


def _entered(
    host: Host,
    config: TrainConfig,
    parts: Sequence[Split],
    ledgers: Sequence[Path | None],
    name: str,
) -> tuple[pea.LocalData, Reservations]:
    """What a program has of its owners, and the run in their ledgers, if it has a name."""
    own = local_data(host, config, parts)
    if own.problem is not None or not name:
        return own, Reservations()
    public = [part.public for part in parts]
    budget = Reservations(entries_of(host, config, public, ledgers, name))
    try:
        budget.reserve()
    except ArgumentError as error:
        own = replace(own, train=[], held_out=[], problem=error)
    return own, budget


def _run(
    host: Host,
    config: TrainConfig,
    own: pea.LocalData,
    callbacks: ProgressCallback,
    recipes: Sequence[Recipe],
    save: Callable[[Sequence[SharedModel]], None] | None = None,
    provider: str | None = None,
) -> dict[str, Any]:
    records, algorithm = agree_on_algorithm(
        host, config, own, callbacks.manifest, config.grid, config.encoder
    )
    begun = callbacks.resume()
    callbacks.forecast(records, sum(map(len, own.held_out)), algorithm.step)
    own, records, maps = whitened(host, config, own, records, callbacks)
    whitening = maps[0] if maps and not records.widths else None  # else each owner's alone
    model, ledger = pea.train(host, config, own, records, algorithm, begun, callbacks)
    epsilons = epsilons_of(config, ledger)  # what it might refuse, it refuses before the release
    without = epsilons_without_noise(config, ledger)
    traffic, padding = callbacks.traffic()
    held_out = Records.agreed(host.exchange, own.held_out, split=config.split)
    outputs = Outputs(host, config, held_out)
    held_out_epsilon = outputs.epsilon
    words = callbacks.release(outputs.names, lambda: outputs.compute(model), model, ledger)
    opened = host.open(words) if outputs.names else []
    parameters = outputs.parameters(opened)
    name = common_name(host.exchange, len(host.ranks)) if not parameters else []
    report = result(
        config,
        Outcome(
            quality=outputs.quality(opened),
            held_out_epsilon=held_out_epsilon,
            epsilons=epsilons,
            epsilons_without_noise=without,
            traffic=traffic,
            padding=padding,
            seconds=callbacks.end(),
            phases=callbacks.phases,
            opened=outputs.titles,
            resumed_from=callbacks.resumed,
            provider=provider,
            manifest=callbacks.manifest.kept,
            records=callbacks.sizes,
            held_out=held_out.sizes,
            whitening=whitening,
            widths=records.widths,
        ),
    )
    headers = _headers(host, config, report, recipes, held_out, maps)
    if save is not None and not parameters:
        save(shares_of(host, model, name, headers, callbacks, maps))
    chosen = {OWES: np.array(True)} if headers[0].chosen_by_counts else {}
    found = {**parameters, **whitening_arrays(whitening), **algorithm.terms, **chosen}
    callbacks.complete(report, found if parameters else {})
    if not parameters:
        return {**report, "parameters": None, "header": None, "whitening": None}
    shown = {"parameters": pairs([*parameters.values()]), "header": headers[0].to_json()}
    terms = {"terms": algorithm.terms} if algorithm.terms else {}
    return {**report, **shown, "whitening": whitening and whitening.parts, **terms}


def _headers(
    host: Host,
    config: TrainConfig,
    report: dict[str, Any],
    recipes: Sequence[Recipe],
    records: Records,
    maps: Sequence[Whitening],
) -> list[Header]:
    """The header of each rank of the host, which have these recipes and maps of features."""
    return [
        header_of(config, report, recipe, records.features, own_map, records.widths, rank)
        for rank, recipe, own_map in zip_longest(host.ranks, recipes, maps)
    ]


def shares_of(
    host: Host,
    model: Parameters,
    name: Sequence[int],
    headers: Sequence[Header],
    callbacks: ProgressCallback,
    maps: Sequence[Whitening] = (),
) -> list[SharedModel]:
    """Returns the shares of this program's holders, as they are saved.

    The name is that of this save, `extensions.protocols.agreement.common_name`. Headers and maps of
    features are of each rank.
    """
    each = zip(host.holders, host.summands(model), callbacks.released, strict=True)
    held = zip_longest(each, headers, maps)
    return [
        SharedModel(
            header=header,
            save=tuple(name),
            rank=rank,
            parts=own,
            entry=f"{callbacks.entry}-{rank}",
            run=run,
            release=release,
            whitening=whitening,
        )
        for (rank, own, (run, release)), header, whitening in held
    ]
