"""The plaintext backend of `pea train`: for comparison, private towards nobody in the room."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from extensions.checks import check_left_out
from extensions.data.datasets import read_party_file
from extensions.errors import ArgumentError
from extensions.protocols.host import Speed, StepForecast
from extensions.protocols.records import Records
from extensions.protocols.step import Step
from extensions.runs.clear_host import plaintext_speed
from extensions.runs.clear_training import train as train_in_clear
from extensions.runs.config import TrainConfig
from extensions.runs.hosts import Progress
from extensions.runs.options import RunOptions

NOTICE = "The clear backend computes on plaintext in one process: use it for comparison only."


def check(config: TrainConfig, options: RunOptions) -> None:
    """Checks that the run has nothing that is of use between processes alone."""
    check_left_out("with {backend=clear}", material=options.material, players=options.players)
    if config.split == "columns":
        check_left_out("with {backend=clear} and {split=columns}", save=options.save)


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
    """
    check(config, options)
    parts = [read_party_file(path) for path in files]
    return train_in_clear(config, parts, progress, options.checkpoints, options.ledgers)


def plan(config: TrainConfig, step: Step, records: Records) -> StepForecast:
    """Returns that nothing is sent."""
    return StepForecast(rounds=0, bytes=0)


def speed(seconds: float) -> Speed:
    """Returns how fast a step is computed here."""
    return plaintext_speed()


def check_party(config: TrainConfig, *_: Any) -> NoReturn:
    """Raises ArgumentError: plaintext training has no parties that could run apart."""
    raise ArgumentError("backend", "clear", "a backend with one process for each party")


train_party = check_party
