"""What a run makes of the steps' updates: rates that fall, momentum, a mean of iterates."""

from extensions.protocols.optimizer.choices import (
    Averaging,
    Choices,
    bias_bits,
    bias_bits_of_layers,
    check_average,
    check_choices,
    iterates,
)
from extensions.protocols.optimizer.schedule import (
    RateSchedule,
    multipliers,
    numerators,
    ratio_after,
    truncated_bits,
)
from extensions.protocols.optimizer.state import Mean, State

__all__ = [
    "Averaging",
    "Choices",
    "Mean",
    "RateSchedule",
    "State",
    "bias_bits",
    "bias_bits_of_layers",
    "check_average",
    "check_choices",
    "iterates",
    "multipliers",
    "numerators",
    "ratio_after",
    "truncated_bits",
]
