"""The settings of one training run: the same for every party, checked before anything starts."""

from extensions.network.models.start_file import CHOSEN_BY_COUNTS
from extensions.runs.config.checks import HOSTS, check_noised, check_parties
from extensions.runs.config.stated import Evaluate
from extensions.runs.config.train import TrainConfig

__all__ = [
    "CHOSEN_BY_COUNTS",
    "HOSTS",
    "Evaluate",
    "TrainConfig",
    "check_noised",
    "check_parties",
]
