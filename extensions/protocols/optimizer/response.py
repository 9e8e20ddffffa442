"""How the result of a run follows each step's sum, whatever the sums are."""

import numpy as np

from extensions.protocols.optimizer.choices import Choices, iterates
from extensions.protocols.optimizer.schedule import multipliers
from extensions.ring.fixed_point import Reals


def response(choices: Choices) -> Reals:
    """Returns how far each step's sum moves the result, in units of rate / batch size, (steps,).

    A sum goes into the updates of its own step and, by momentum m, of later ones, so that s steps
    later it has moved weights by 1 + m + ... + m^s times the rate of its step; the result is the
    mean of the last iterates.
    """
    steps, m = choices.steps, choices.momentum
    moved = np.cumsum(m ** np.arange(steps, dtype=np.float64))
    last = np.arange(steps - iterates(choices), steps)
    mean = [moved[last[last >= t] - t].sum() / len(last) for t in range(steps)]
    return np.array(mean) * multipliers(choices.lr_schedule, steps)
