"""How the learning rate falls over the steps of a run; public, and known before it begins."""

import math

from extensions.protocols.settings import RateSchedule


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
