"""The plaintext backend of `pea train`: for comparison, private towards nobody in the room."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from extensions.errors import ArgumentError
from extensions.owners.data import read_party_file
from extensions.runs.clear_training import train as train_in_clear
from extensions.runs.config import TrainConfig
from extensions.runs.hosts import Progress
from extensions.runs.options import RunOptions

NOTICE = "The clear backend computes on plaintext in one process: use it for comparison only."


def check(config: TrainConfig) -> None:
    """Refuses nothing: all that a config may say can be run in plaintext."""


def notices(config: TrainConfig) -> list[str]:
    """Returns that this backend is no secure one."""
    return [NOTICE]


def noise_failure(config: TrainConfig, features: int) -> float:
    """Returns 0: noise is exactly what is accounted."""
    return 0.0


def train(
    config: TrainConfig, files: Sequence[Path], progress: Progress, options: RunOptions
) -> dict[str, Any]:
    """Returns the report of one plaintext run, which needs no limit and saves no shares.

    Its checkpoints are one file, with the model in the clear.

    Raises:
        ArgumentError: prepared material or players, or a run that cannot be resumed.
    """
    if options.material is not None:
        raise ArgumentError(
            "material", str(options.material), "None, since nothing is shared in the clear"
        )
    if options.players is not None:
        raise ArgumentError("players", str(options.players), "left out, except for --backend tfe")
    parts = [read_party_file(path) for path in files]
    return train_in_clear(config, parts, progress, options.checkpoints, options.ledgers)


def train_party(config: TrainConfig, *_: Any) -> dict[str, Any]:
    """Raises ArgumentError: plaintext training has no parties that could run apart."""
    raise ArgumentError("backend", "clear", "a backend with one process for each party")
