"""What each step of a run counts: its learning rate, and its part of the result; both public."""

import math

import numpy as np

from extensions.protocols.optimizer.state import iterates
from extensions.protocols.settings import RateSchedule, Training
from extensions.ring.fixed_point import Reals


def multipliers(schedule: RateSchedule, steps: int) -> list[float]:
    """Returns what the learning rate is multiplied by in each of so many steps.

    "constant" leaves it as it is; "linear" and "cosine" begin with the whole and would be 0 one
    step after the last: 1 - t / T, and (1 + cos(pi t / T)) / 2, for t = 0 .. T - 1.
    """
    times = [t / steps for t in range(steps)]
    match schedule:
        case "constant":
            return [1.0] * steps
        case "linear":
            return [1.0 - t for t in times]
        case "cosine":
            return [(1.0 + math.cos(math.pi * t)) / 2 for t in times]


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
