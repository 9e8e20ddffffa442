"""What the steps of each optimizer make of noisy sums.

A rule is made once of a training's settings and of the plan of its sums, and serves every host and
every entry: runs, scripts of CrypTen, models of Keras. Another optimizer is another class in
`RULES`, under the name that settings give it.
"""

from typing import Any

from extensions.protocols.updates.adam import FIRST, SECOND, AdamRule
from extensions.protocols.updates.rule import Kept, UpdateRule
from extensions.protocols.updates.sgd import VELOCITY, SGDRule

__all__ = [
    "FIRST",
    "RULES",
    "SECOND",
    "VELOCITY",
    "AdamRule",
    "Kept",
    "SGDRule",
    "UpdateRule",
    "rule_for",
]

RULES: dict[str, type[UpdateRule]] = {"sgd": SGDRule, "adam": AdamRule}
"""By the name of an optimizer in settings."""


def rule_for(config: Any) -> type[UpdateRule]:
    """Returns the rule of a training's optimizer."""
    return RULES[config.optimizer]
