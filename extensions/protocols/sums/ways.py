"""From the settings of a run to the way in which it learns."""

from extensions.protocols.pea import HIDDEN, Way
from extensions.protocols.settings import Training
from extensions.protocols.step import Step
from extensions.protocols.sums.open_steps import descend_openly
from extensions.protocols.sums.statistics import check_statistics, fit

OPEN = Way(Step.of, descend_openly)
STATISTICS = Way(check_statistics, fit)


def way_of(config: Training) -> Way:
    """Returns how a run gets from its start to the trained model."""
    if config.method == "statistics":
        return STATISTICS
    return OPEN if config.open == "each-step" else HIDDEN
