"""The plaintext backend of `pea train`: for comparison, private towards nobody in the room."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from extensions.errors import ArgumentError
from extensions.owners.data import read_party_file
from extensions.privacy.sampling import OVERFLOW_PROBABILITY
from extensions.runs.backends import Progress
from extensions.runs.checkpoints import CheckpointOptions
from extensions.runs.clear_training import train as train_in_clear
from extensions.runs.config import TrainConfig

NOTICE = "The clear backend computes on plaintext in one process: use it for comparison only."


def failure_probability(config: TrainConfig, features: int) -> float:
    """Returns the probability that a padded batch of a run is too small."""
    return OVERFLOW_PROBABILITY


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
    """Returns the report of one plaintext run; `save` and `timeout` have no use here.

    Its checkpoints are one file, with the model in the clear.
    """
    if material is not None:
        raise ArgumentError("material", str(material), "None, since nothing is shared in the clear")
    if players is not None:
        raise ArgumentError("players", str(players), "left out, except for --backend tfe")
    parts = [read_party_file(path) for path in files]
    return train_in_clear(config, parts, progress, checkpoints)


def train_party(config: TrainConfig, records: Path, **_: Any) -> dict[str, Any]:
    """Raises ArgumentError: plaintext training has no parties that could run apart."""
    raise ArgumentError("backend", "clear", "a backend with one process for each party")
