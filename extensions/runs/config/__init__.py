"""The settings of one training run: the same for every party, checked before anything starts."""

from extensions.network.models.start_file import CHOSEN_BY_COUNTS
from extensions.runs.config.checks import HOSTS, check_noised, check_parties
from extensions.runs.config.defaults import CHOSEN, Usual
from extensions.runs.config.stated import Evaluate, Kind
from extensions.runs.config.train import TrainConfig

__all__ = [
    "CHOSEN",
    "CHOSEN_BY_COUNTS",
    "HOSTS",
    "Evaluate",
    "Kind",
    "TrainConfig",
    "Usual",
    "check_noised",
    "check_parties",
]
