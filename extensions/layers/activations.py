"""Piecewise-linear activations: every comparison at once, one product, an exact derivative."""

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from extensions.errors import ArgumentError
from extensions.ring.interface import Ring, Share
from extensions.rules import Between


@dataclass(frozen=True, kw_only=True)
class PiecewiseLinear:
    """A continuous function that is linear between thresholds.

    Attributes:
        thresholds: t_1 < ... < t_k, where the slope changes.
        slopes: k + 1 slopes, as integers over 2^slope_bits.
        offset: the value at t_1.
        slope_bits: fractional bits of the slopes; 0 saves the truncation.
        bound: the largest magnitude that the function takes, or infinity.
    """

    name: str
    thresholds: tuple[float, ...]
    slopes: tuple[int, ...]
    offset: float
    slope_bits: int
    bound: float

    def __post_init__(self) -> None:
        if list(self.thresholds) != sorted(set(self.thresholds)) or not self.thresholds:
            raise ArgumentError("thresholds", self.thresholds, "strictly increasing, at least one")
        if len(self.slopes) != len(self.thresholds) + 1:
            allowed = f"{len(self.thresholds) + 1} integers"
            raise ArgumentError("slopes", self.slopes, allowed, code="shape")

    def integers(self, frac_bits: int) -> tuple[list[int], list[int]]:
        """Returns thresholds and intercepts as ring integers that make it exactly continuous.

        The intercepts carry frac_bits + slope_bits fractional bits.
        """
        t = [round(value * (1 << frac_bits)) for value in self.thresholds]
        first = round(self.offset * (1 << (frac_bits + self.slope_bits))) - self.slopes[0] * t[0]
        intercepts = [first]
        for threshold, left, right in zip(t, self.slopes[:-1], self.slopes[1:], strict=True):
            intercepts.append(intercepts[-1] + (left - right) * threshold)
        return t, intercepts


SIGMOID_KNOTS: Sequence[tuple[float, float]] = (
    (0.9375, 0.7292),
    (2.28125, 0.9179),
    (4.578125, 1.0),
)

OUTPUT_SLACK = 1.0 + 2.0**-10
"""Rounding and the sigmoid's ends leave an activation's range by less than this factor."""


@functools.cache
def sigmoid(slope_bits: int = 14) -> PiecewiseLinear:
    """Returns a sigmoid of five sloped pieces, at most 0.0107 from 1 / (1 + exp(-x)).

    Constant, and within 2^-13 of 0 and 1, beyond the outermost knots. The knots are the best found
    by minimising the largest distance, rounded to 2^-6.
    """
    points = [(-t, 1.0 - y) for t, y in reversed(SIGMOID_KNOTS)] + list(SIGMOID_KNOTS)
    slopes = [
        round((b[1] - a[1]) / (b[0] - a[0]) * (1 << slope_bits))
        for a, b in zip(points[:-1], points[1:], strict=True)
    ]
    rise = sum(
        s * (b[0] - a[0]) for s, a, b in zip(slopes, points[:-1], points[1:], strict=True)
    ) / (1 << slope_bits)
    return PiecewiseLinear(
        name="sigmoid",
        thresholds=tuple(t for t, _ in points),
        slopes=(0, *slopes, 0),
        offset=(1.0 - rise) / 2,
        slope_bits=slope_bits,
        bound=1.0,
    )


@functools.cache
def tanh() -> PiecewiseLinear:
    """Returns a hyperbolic tangent as twice the `sigmoid` of twice x, less 1.

    At most 0.0214 from tanh(x); its slopes are at most 0.98.
    """
    half = sigmoid()
    return PiecewiseLinear(
        name="tanh",
        thresholds=tuple(t / 2 for t in half.thresholds),
        slopes=tuple(4 * slope for slope in half.slopes),
        offset=2 * half.offset - 1,
        slope_bits=half.slope_bits,
        bound=1.0,
    )


@functools.cache
def relu(max_value: float = 8.0) -> PiecewiseLinear:
    """Returns min(max(x, 0), max_value).

    The cap is what bounds the norm of a hidden layer, and with it what rounding can add to a
    clipped gradient.
    """
    Between(0, 64, above=True).check("max_value", max_value)
    return PiecewiseLinear(
        name="relu",
        thresholds=(0.0, max_value),
        slopes=(0, 1, 0),
        offset=0.0,
        slope_bits=0,
        bound=max_value,
    )


@functools.cache
def unit_interval() -> PiecewiseLinear:
    """Returns min(max(x + 1/2, 0), 1), exactly."""
    return _ramp("unit interval", 0)


@functools.cache
def hard_sigmoid() -> PiecewiseLinear:
    """Returns min(max(1/2 + x/4, 0), 1): exactly 0 below -2, exactly 1 from 2 on.

    The tangent of 1 / (1 + exp(-x)) at 0, from which it is 1 - 1 / (1 + exp(-2)) = 0.1193 away at
    most, at both ends; the value is rounded by less than an ulp. Two thresholds instead of six.
    """
    return _ramp("hard sigmoid", 2)


def _ramp(name: str, slope_bits: int) -> PiecewiseLinear:
    """Returns 1/2 + x / 2^slope_bits, cut to 0..1."""
    end = 0.5 * (1 << slope_bits)
    return PiecewiseLinear(
        name=name,
        thresholds=(-end, end),
        slopes=(0, 1, 0),
        offset=0.0,
        slope_bits=slope_bits,
        bound=1.0,
    )


def output_norm(function: PiecewiseLinear, features: int, input_norm: float = math.inf) -> float:
    """Returns a bound of the Euclidean norm of a row of function(x), for rows x of `input_norm`.

    ReLU, which is rounded nowhere, makes no row longer.
    """
    bound = OUTPUT_SLACK * function.bound * math.sqrt(features)
    return min(bound, input_norm) if function.name == "relu" else bound


def piecewise(ring: Ring, x: Share, function: PiecewiseLinear, bits: int) -> tuple[Share, Share]:
    """Returns (function(x), its derivative), for x with `bits` fractional bits; nothing is rounded.

    The value carries bits + slope_bits fractional bits, the derivative slope_bits.

    Guarantees:
        Exact while |x - t| < 2^(63 - bits) for every threshold t and the value stays below 2^(63 -
        bits - slope_bits); at a threshold the derivative is the one on the right.

    Cost:
        The rounds of one selection (`Ring.select`).
    """
    thresholds, intercepts = function.integers(bits)
    slopes = function.slopes
    selected = ring.select(x, thresholds, [_falls(slopes)], [_falls(intercepts)])
    (slope,), (product,), (intercept,) = selected[1:]
    slope = ring.add_public(slope, slopes[-1])
    product = product + x * slopes[-1]
    return ring.add_public(product + intercept, intercepts[-1]), slope


def _falls(values: Sequence[int]) -> list[int]:
    """Returns by how much each value is above the next."""
    return [left - right for left, right in itertools.pairwise(values)]


def activate(ring: Ring, x: Share, function: PiecewiseLinear) -> tuple[Share, Share]:
    """Returns (function(x), its derivative), the derivative with `slope_bits` fractional bits.

    Guarantees:
        Right within one ulp for every x whose product with the steepest slope stays below 2^62; at
        a threshold the derivative is the one on the right.

    Cost:
        The rounds of one selection (`Ring.select`), and a truncation if slope_bits > 0. All
        thresholds share them.
    """
    value, slope = piecewise(ring, x, function, ring.frac_bits)
    if function.slope_bits:
        (value,) = ring.truncate([(value, function.slope_bits)])
    return value, slope


def activation_gradient(
    ring: Ring, gradient: Share, slope: Share, function: PiecewiseLinear
) -> Share:
    """Returns the gradient at the input, given that at the output; 1 round or 2."""
    is_flag = not function.slope_bits and {0, 1}.issuperset(function.slopes)
    (product,) = (ring.mul_flags if is_flag else ring.mul)([(gradient, slope)])
    if function.slope_bits:
        (product,) = ring.truncate([(product, function.slope_bits)])
    return product
