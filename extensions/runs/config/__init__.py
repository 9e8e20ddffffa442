"""The settings of one training run: the same for every party, checked before anything starts."""

from extensions.layers.models.start_file import CHOSEN_BY_COUNTS
from extensions.runs.config.cross_rules import COUNTED, check_parties
from extensions.runs.config.defaults import CHOSEN, Defaults
from extensions.runs.config.run_config import Evaluate, Kind
from extensions.runs.config.train import HOSTS, TrainConfig

__all__ = [
    "CHOSEN",
    "CHOSEN_BY_COUNTS",
    "COUNTED",
    "HOSTS",
    "Defaults",
    "Evaluate",
    "Kind",
    "TrainConfig",
    "check_parties",
]
