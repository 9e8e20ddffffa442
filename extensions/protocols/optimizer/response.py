"""How the result of a run follows each step's sum, whatever the sums are."""

import numpy as np

from extensions.protocols.optimizer.schedule import multipliers
from extensions.protocols.optimizer.state import iterates
from extensions.protocols.settings import Training
from extensions.ring.fixed_point import Reals


def response(config: Training) -> Reals:
    """Returns how far each step's sum moves the result, in units of rate / batch size, (steps,).

    A sum goes into the updates of its own step and, by momentum m, of later ones, so that s steps
    later it has moved weights by 1 + m + ... + m^s times the rate of its step; the result is the
    mean of the last iterates.
    """
    steps, m = config.steps, config.momentum
    moved = np.cumsum(m ** np.arange(steps, dtype=np.float64))
    last = np.arange(steps - iterates(config.average, steps), steps)
    mean = [moved[last[last >= t] - t].sum() / len(last) for t in range(steps)]
    return np.array(mean) * multipliers(config.lr_schedule, steps)
