"""What a run makes of the steps' updates: rates that fall, momentum, a mean of iterates."""

from extensions.protocols.optimizer.adam import AdamPlan, AdamStep, Betas
from extensions.protocols.optimizer.plans import (
    largest_weight,
    network_of,
    plan_of,
    whole_network_of,
)
from extensions.protocols.optimizer.rules import (
    FIRST,
    RULES,
    SECOND,
    VELOCITY,
    Adam,
    Descent,
    Kept,
    Rule,
    rule_for,
)
from extensions.protocols.optimizer.schedule import multipliers, ratio_after, truncated_bits
from extensions.protocols.optimizer.state import PREVIOUS, TOTAL, Mean, State, iterates

__all__ = [
    "FIRST",
    "PREVIOUS",
    "RULES",
    "SECOND",
    "TOTAL",
    "VELOCITY",
    "Adam",
    "AdamPlan",
    "AdamStep",
    "Betas",
    "Descent",
    "Kept",
    "Mean",
    "Rule",
    "State",
    "iterates",
    "largest_weight",
    "multipliers",
    "network_of",
    "plan_of",
    "ratio_after",
    "rule_for",
    "truncated_bits",
    "whole_network_of",
]
