"""What a run makes of the steps' updates: rates that fall, momentum, a mean of iterates."""

from extensions.protocols.optimizer.choices import (
    Averaging,
    Choices,
    bias_bits,
    check_average,
    check_choices,
    iterates,
)
from extensions.protocols.optimizer.schedule import RateSchedule, multipliers, numerators
from extensions.protocols.optimizer.state import Mean, State

__all__ = [
    "Averaging",
    "Choices",
    "Mean",
    "RateSchedule",
    "State",
    "bias_bits",
    "check_average",
    "check_choices",
    "iterates",
    "multipliers",
    "numerators",
]
