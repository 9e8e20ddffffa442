"""The settings of one training run: the same for every party, checked before anything starts."""

from extensions.network.models.start_file import CHOSEN_BY_COUNTS
from extensions.runs.config.cross import COUNTED, check_parties
from extensions.runs.config.defaults import CHOSEN, Usual
from extensions.runs.config.stated import Evaluate, Kind
from extensions.runs.config.train import HOSTS, TrainConfig

__all__ = [
    "CHOSEN",
    "CHOSEN_BY_COUNTS",
    "COUNTED",
    "HOSTS",
    "Evaluate",
    "Kind",
    "TrainConfig",
    "Usual",
    "check_parties",
]
