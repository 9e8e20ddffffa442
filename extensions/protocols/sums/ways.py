"""From the settings of a run to the way in which it learns."""

from extensions.protocols.pea import HIDDEN, Way, plans
from extensions.protocols.sums.choices import Choices
from extensions.protocols.sums.open_steps import descend_openly
from extensions.protocols.sums.statistics import check_statistics, fit

OPEN = Way(plans, descend_openly)
STATISTICS = Way(check_statistics, fit)


def way_of(choices: Choices) -> Way:
    """Returns how a run gets from its start to the trained model."""
    if choices.method == "statistics":
        return STATISTICS
    return OPEN if choices.open == "each-step" else HIDDEN
