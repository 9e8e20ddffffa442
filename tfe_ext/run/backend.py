"""The TF Encrypted backend of `pea train`: ABY3 with three servers that own the records."""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from extensions.errors import ArgumentError, ServersLostError
from extensions.network.spec import ModelSpec
from extensions.owners.data import read_party_file
from extensions.runs.checkpoints import check_files
from extensions.runs.config import TrainConfig
from extensions.runs.entry_points import quiet_unless_it_fails
from extensions.runs.hosts import Progress
from extensions.runs.manifest import manifest_of
from extensions.runs.options import RunOptions
from extensions.runs.processes import call
from tfe_ext.players.addresses import SERVERS, read_players

READ_APART = True

NOTICE = (
    "The process that builds the graph of ABY3's three servers can read every share; without "
    "--players it plays the servers too. Whoever runs it must be trusted with all records."
)


def check(config: TrainConfig, options: RunOptions) -> None:
    """Checks that the run has three servers and no dealer, and its players places.

    Raises:
        ArgumentError: it has not.
    """
    if config.parties != len(SERVERS):
        allowed = f"{len(SERVERS)}, the servers of ABY3"
        raise ArgumentError("parties", config.parties, allowed, f"Type: --parties {len(SERVERS)}.")
    if config.provider != TrainConfig.provider:
        raise ArgumentError(
            "provider", config.provider, "left out with the backend tfe", "ABY3 needs no dealer."
        )
    if config.dealer_noise:
        allowed = "left out with the backend tfe"
        raise ArgumentError("dealer_noise", True, allowed, "ABY3 has no dealer.")
    if options.material is not None:
        allowed = "left out with the backend tfe"
        raise ArgumentError("material", str(options.material), allowed, "ABY3 needs no dealer.")
    if options.players is not None:
        read_players(options.players)


def notices(config: TrainConfig) -> list[str]:
    """Returns who must be trusted."""
    return [NOTICE]


def noise_failure(config: TrainConfig, features: int) -> float:
    """Returns the probability that a draw of the servers' noise lies beyond its table."""
    if not config.hidden:
        return 0.0
    with quiet_unless_it_fails():
        from tfe_ext.keras import optimizers

    parameters = ModelSpec.parse(config.model, features, config.outputs).parameters
    return optimizers.noise_failure(parameters, config.steps)


def train(
    config: TrainConfig, files: Sequence[Path], progress: Progress, options: RunOptions
) -> dict[str, Any]:
    """Returns the report of a run of three servers that own the records.

    They are devices of one process, or else players in processes of their own.

    TensorFlow stays out of the calling process, whose devices it would fix and which it might
    keep from ending in time.

    Args:
        config: resolved settings.
        files: each server's records.
        progress: called after each step.
        options: with players, but without material.

    Raises:
        ArgumentError: material is given, or what the servers' process says of an argument.
        PlayerLostError: a player was lost; it is named.
        ServersLostError: the servers' process died or ran out of time.
    """
    check(config, options)
    if options.checkpoints is not None:
        with quiet_unless_it_fails():
            from tfe_ext.run.host import ABY3Host

        own = read_party_file(files[0])
        manifest = manifest_of(config, options, own, ABY3Host.software)
        check_files(options.checkpoints, manifest.kept, config.steps, files)
    started = time.perf_counter()
    report = call(
        "tfe_ext.run.backend:train_task",
        {"config": config, "files": list(files), "options": options},
        env={"TF_CPP_MIN_LOG_LEVEL": "2", **os.environ},
        timeout=options.timeout,
        on_event=progress,
        lost=ServersLostError,
    )
    return {**report, "seconds": round(time.perf_counter() - started, 3)}


def train_task(
    emit: Progress, *, config: TrainConfig, files: Sequence[Path], options: RunOptions
) -> dict[str, Any]:
    """Returns the report, from inside the servers' process."""
    from tfe_ext.run.training import train as train_here

    return train_here(config, files, emit, options)


def check_party(config: TrainConfig, *_: Any) -> None:
    """Raises ArgumentError: TF Encrypted's servers do not run one by one under `pea party`."""
    raise ArgumentError("backend", "tfe", "a backend with one process for each party")


def train_party(config: TrainConfig, *_: Any) -> dict[str, Any]:
    """Raises ArgumentError: TF Encrypted's servers do not run one by one under `pea party`."""
    check_party(config)
    raise AssertionError
