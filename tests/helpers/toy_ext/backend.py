"""What `pea train --backend toy` finds."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from extensions.data.datasets import read_party_file
from extensions.errors import ArgumentError
from extensions.privacy.randomness import InsecureSeededSource, SystemSource
from extensions.runs import training
from extensions.runs.config import TrainConfig, check_parties
from extensions.runs.hosts import Progress
from extensions.runs.options import RunOptions

from .host import ToyHost


def check(config: TrainConfig, options: RunOptions) -> None:
    check_parties(config.parties, 2)


def notices(config: TrainConfig) -> list[str]:
    return ["The toy backend has all shares in one process: it hides nothing."]


def noise_failure(config: TrainConfig, features: int) -> float:
    return 0.0


def train(
    config: TrainConfig, files: Sequence[Path], progress: Progress, options: RunOptions
) -> dict[str, Any]:
    seed = config.insecure_seed
    source = SystemSource() if seed is None else InsecureSeededSource(seed)
    host = ToyHost(config.frac_bits, config.parties, source)
    return training.run(host, config, [read_party_file(f) for f in files], progress, options)


def check_party(config: TrainConfig, *_: Any) -> NoReturn:
    raise ArgumentError("backend", "toy", "a backend with one process for each party")


train_party = check_party
