"""What a run makes of the steps' updates: rates that fall, momentum, a mean of iterates."""

from extensions.protocols.optimizer.adam import AdamPlan, AdamStep, Betas
from extensions.protocols.optimizer.choices import (
    Averaging,
    Choices,
    Optimizer,
    bias_bits,
    bias_bits_of_layers,
    check_average,
    check_choices,
    iterates,
)
from extensions.protocols.optimizer.rules import Rule, adam_of, adam_updates, rule_of
from extensions.protocols.optimizer.schedule import (
    RateSchedule,
    multipliers,
    numerators,
    ratio_after,
    truncated_bits,
)
from extensions.protocols.optimizer.state import Mean, State

__all__ = [
    "AdamPlan",
    "AdamStep",
    "Averaging",
    "Betas",
    "Choices",
    "Mean",
    "Optimizer",
    "RateSchedule",
    "Rule",
    "State",
    "adam_of",
    "adam_updates",
    "bias_bits",
    "bias_bits_of_layers",
    "check_average",
    "check_choices",
    "iterates",
    "multipliers",
    "numerators",
    "ratio_after",
    "rule_of",
    "truncated_bits",
]
