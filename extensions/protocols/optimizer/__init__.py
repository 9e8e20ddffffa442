"""What a run makes of the steps' updates: rates that fall, plans, a state, a mean of iterates."""

from extensions.protocols.optimizer.plans import largest_weight, rule_of
from extensions.protocols.optimizer.schedule import multipliers
from extensions.protocols.optimizer.state import PREVIOUS, TOTAL, Mean, State, iterates

__all__ = [
    "PREVIOUS",
    "TOTAL",
    "Mean",
    "State",
    "iterates",
    "largest_weight",
    "multipliers",
    "rule_of",
]
