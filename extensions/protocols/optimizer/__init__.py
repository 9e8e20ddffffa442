"""What a run makes of the steps' updates: rates that fall, plans, a state, a mean of iterates."""

from extensions.protocols.optimizer.plans import largest_weight, multipliers, rule_of
from extensions.protocols.optimizer.state import MODEL, TOTAL, Mean, State, Store, iterates, move

__all__ = [
    "MODEL",
    "TOTAL",
    "Mean",
    "State",
    "Store",
    "iterates",
    "largest_weight",
    "move",
    "multipliers",
    "rule_of",
]
