"""The search for the smallest noise that costs no more than a target."""

import math
from collections.abc import Callable

from extensions.errors import ArgumentError

_PRECISION = 5e-5  # relative, of a calibrated noise multiplier
_LARGEST_NOISE = 1e12


def smallest_noise(
    cost: Callable[[float, bool], float], target: float, *, start: float, coarse_first: bool
) -> float:
    """The smallest noise whose fine cost is at most the target, to the promised precision.

    A coarse cost, where there is one, brings the search near at a fraction of the time.
    """
    noise, slope = min(max(start, 0.1), _LARGEST_NOISE), 1.0
    if coarse_first:
        noise, slope = _search(
            lambda noise: cost(noise, True),
            target,
            start=noise,
            slope=slope,
            precision=10 * _PRECISION,
        )
    noise, _ = _search(
        lambda noise: cost(noise, False), target, start=noise, slope=slope, precision=_PRECISION
    )
    return noise


def _search(
    cost: Callable[[float], float], target: float, *, start: float, slope: float, precision: float
) -> tuple[float, float]:
    """The smallest noise, to a relative precision from above, whose cost is at most the target.

    Works on logarithms, where cost over noise is close to a falling line; `slope` is a guess at
    how fast it falls. The slope that was found is returned beside the noise.
    """

    def gap(x: float) -> float:
        value = cost(math.exp(x))
        return max(-40.0, min(40.0, math.log(value / target))) if value > 0 else -40.0

    low = high = math.log(start)
    gap_low = gap_high = gap(low)
    stride = min(abs(gap_low) / slope, 3.0) + 0.5 * precision
    while gap_high > 0:
        if high > math.log(_LARGEST_NOISE):
            allowed = "large enough for this accountant to reach it with some noise"
            advice = "Use {calibration=pld}, a larger {epsilon} or a larger {delta}."
            raise ArgumentError("epsilon", target, allowed, advice, code="range")
        low, gap_low = high, gap_high
        high += stride
        gap_high, stride = gap(high), 2 * stride
    while gap_low <= 0:
        high, gap_high = low, gap_low
        low -= stride
        gap_low, stride = gap(low), 2 * stride

    rounds = 0
    while high - low > precision:
        rounds += 1
        # Aim beside the interpolated root, so that the interval closes from both sides.
        root = low + (high - low) * gap_low / (gap_low - gap_high)
        aim = root + 0.45 * precision * (1 if high - root > precision else -1)
        x = (low + high) / 2 if rounds % 4 == 0 else aim
        x = min(max(x, low + 0.05 * precision), high - 0.05 * precision)
        gap_x = gap(x)
        if gap_x > 0:
            low, gap_low = x, gap_x
        else:
            high, gap_high = x, gap_x
    return math.exp(high), min(max((gap_low - gap_high) / (high - low), 0.5), 10.0)
