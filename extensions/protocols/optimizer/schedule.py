"""How the learning rate falls over the steps of a run; public, and known before it begins."""

import math

from extensions.protocols.dpsgd_plan import StepPlan
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


def truncated_bits(plan: StepPlan, exponent: int) -> int:
    """Returns by how many bits a step truncates weights whose ratio has that exponent."""
    return exponent + plan.factor_bits


def ratio_after(plan: StepPlan, truncated: int | None) -> tuple[int, int]:
    """Returns the numerator and exponent by which a step multiplies its sum, of any learning rate.

    With momentum no later step is truncated by more bits than an earlier one, so that what it
    carries over keeps to the range that `StepPlan` proves: with a lower learning rate than before
    the numerator has fewer bits instead, and is never 0. Else they are those of
    `StepPlan.step_ratio`.

    Args:
        plan: of the step.
        truncated: by how many bits the step before it was truncated (`truncated_bits`); None
            without momentum, and of the first one.
    """
    numerator, exponent = plan.step_ratio
    less = 0 if truncated is None else truncated_bits(plan, exponent) - truncated
    if less <= 0:
        return numerator, exponent
    exact = math.ldexp(plan.learning_rate / plan.expected_batch_size, exponent - less)
    return max(1, round(exact)), exponent - less
