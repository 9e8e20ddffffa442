"""The TF Encrypted backend of `pea train`: ABY3 with three servers that own the records."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from extensions.errors import ArgumentError
from extensions.network.spec import ModelSpec
from extensions.privacy.sampling import OVERFLOW_PROBABILITY
from extensions.runs.backends import Progress
from extensions.runs.checkpoints import CheckpointOptions, check_files
from extensions.runs.config import TrainConfig
from tfe_ext.keras.optimizers import noise_failure
from tfe_ext.run.child import Child

NOTICE = (
    "The process that builds the graph of ABY3's three servers can read every share; without "
    "--players it plays the servers too. Whoever runs it must be trusted with all records."
)


def failure_probability(config: TrainConfig, features: int) -> float:
    """Returns the probability that a padded batch, or a noise table, of a run is too small."""
    parameters = ModelSpec.parse(config.model, features, config.classes).parameters
    return OVERFLOW_PROBABILITY + noise_failure(parameters, config.steps)


def train(
    config: TrainConfig,
    files: Sequence[Path],
    progress: Progress,
    *,
    save: Path | None,
    timeout: float,
    material: Path | None = None,
    players: Path | None = None,
    checkpoints: CheckpointOptions | None = None,
) -> dict[str, Any]:
    """Returns the report of a run of three servers that own the records.

    They are devices of one process, or else players in processes of their own.

    TensorFlow stays out of the calling process, whose devices it would fix and which it might
    keep from ending in time.

    Args:
        config: resolved settings.
        files: each server's records.
        progress: called after each step.
        save: folder for the servers' shares, or None.
        timeout: seconds.
        material: None.
        players: file of the players that `pea players` runs, or None.
        checkpoints: where and how often the client keeps the servers' shares, or None.

    Raises:
        ArgumentError: material is given, or what the servers' process says of an argument.
        ServersLostError: that process died or ran out of time.
    """
    if material is not None:
        raise ArgumentError("material", str(material), "None, since ABY3 needs no dealer")
    if checkpoints is not None:
        check_files(checkpoints, config, files)
    started = time.perf_counter()
    with Child(timeout) as child:
        report = child.run(config.to_dict(), list(files), save, players, checkpoints, progress)
    return {**report, "seconds": round(time.perf_counter() - started, 3)}


def train_party(config: TrainConfig, records: Path, **_: Any) -> dict[str, Any]:
    """Raises ArgumentError: TF Encrypted's servers do not run one by one under `pea party`."""
    raise ArgumentError("backend", "tfe", "a backend with one process for each party")
