"""What a run makes of the steps' updates: rates that fall, momentum, a mean of iterates."""

from extensions.protocols.optimizer.adam import AdamPlan, AdamStep, Betas
from extensions.protocols.optimizer.plans import (
    largest_weight,
    network_of,
    plan_of,
    whole_network_of,
)
from extensions.protocols.optimizer.rules import Rule, adam_of, adam_updates, rule_of
from extensions.protocols.optimizer.schedule import (
    multipliers,
    numerators,
    ratio_after,
    truncated_bits,
)
from extensions.protocols.optimizer.state import Mean, State, iterates

__all__ = [
    "AdamPlan",
    "AdamStep",
    "Betas",
    "Mean",
    "Rule",
    "State",
    "adam_of",
    "adam_updates",
    "iterates",
    "largest_weight",
    "multipliers",
    "network_of",
    "numerators",
    "plan_of",
    "ratio_after",
    "rule_of",
    "truncated_bits",
    "whole_network_of",
]
