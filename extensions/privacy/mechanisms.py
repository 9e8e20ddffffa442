"""The Poisson-subsampled Gaussian mechanism, who is its neighbour, and the ranges of arguments."""

import math
import numbers
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from extensions.errors import ArgumentError, PrivacyWarning

Neighbours = Literal["add-remove", "replace"]
"""Which two data sets epsilon cannot tell apart. Numbers of records are public under both.

"add-remove": one record counts, or there is a null record in its place, whose contribution to every
sum is zero, as a padding row's is. A record of zero features is none: its bias and label count.
"replace": one record is another one. It costs more, up to twice and beyond at the same delta.
"""
NEIGHBOURS: tuple[Neighbours, ...] = get_args(Neighbours)

_RANGES: dict[str, tuple[str, Callable[[float], bool], str]] = {
    "epsilon": ("a finite number above 0", lambda v: v > 0, "Common values are 1 to 10."),
    "delta": (
        "a number above 0 and below 1",
        lambda v: 0 < v < 1,
        "Choose it well below one over the number of records.",
    ),
    "sample_rate": (
        "a number above 0 and at most 1",
        lambda v: 0 < v <= 1,
        "It is the expected batch size over the number of records.",
    ),
    "noise_multiplier": (
        "a finite number of at least 0",
        lambda v: v >= 0,
        "It is the standard deviation of the noise over the clipping norm.",
    ),
    "overflow_probability": (
        "a number of at least 0 and below 1",
        lambda v: 0 <= v < 1,
        "It is the probability that a padded batch was too small, over the whole run.",
    ),
}

WEAK_EPSILON = 20.0
"""Above it somebody who knows the other records can be all but sure whether one was there."""
_LARGEST_EPSILON = 1e4

LESS_OVERFLOW = "A smaller one pads batches to more rows; or accept a larger delta."
"""What to do where overflow takes too much of delta."""


def check_real(name: str, value: object) -> float:
    """The value as a float that lies in the range of the argument of that name.

    Raises:
        ArgumentError: the value is no real number, is not finite, or lies outside the range.
    """
    allowed, inside, advice = _RANGES[name]
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        raise ArgumentError(name, value, allowed, advice)
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number) or not inside(number):
        raise ArgumentError(name, value, allowed, advice)
    return number


def check_target(
    epsilon: float,
    name: str = "epsilon",
    *,
    largest: float = _LARGEST_EPSILON,
    advice: str = "More protects nothing. A run without privacy has the option --no-dp.",
) -> float:
    """The epsilon that somebody asks for, as a float; a large one is warned of.

    Args:
        epsilon: the target.
        name: of the argument.
        largest: that is accepted.
        advice: what to do instead of asking for more.

    Raises:
        ArgumentError: of `check_real`; more than the largest.
    """
    try:
        wanted = check_real("epsilon", epsilon)
    except ArgumentError as error:
        raise error.of(name) from None
    if wanted > largest:
        raise ArgumentError(name, epsilon, f"at most {largest:g}", advice)
    if wanted > WEAK_EPSILON:
        warnings.warn(weakness(name, wanted), PrivacyWarning, stacklevel=1)  # once a process
    return wanted


def weakness(name: str, epsilon: float) -> str:
    """Returns what a large epsilon means."""
    return (
        f"{name} = {epsilon:.4g} protects little: it hardly limits what the result says of a "
        "single record. Common values are 1 to 10."
    )


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Returns only if the value is one of the choices, else raises ArgumentError."""
    if not isinstance(value, str) or value not in choices:
        raise ArgumentError(name, value, "one of " + ", ".join(map(repr, choices)))


@dataclass(frozen=True, kw_only=True)
class SubsampledGaussian:
    """`steps` Gaussian mechanisms, each on a Poisson sample of the records.

    Attributes:
        noise_multiplier: standard deviation over clipping norm, after the noise that a curious
            party can subtract has been taken off.
        sample_rate: probability with which a record enters a step, independently of all others.
        steps: number of steps.
        overflow_probability: probability, over all the steps together, that the sampling deviated
            from the analysed one because a padded batch was too small.
    """

    noise_multiplier: float
    sample_rate: float
    steps: int
    overflow_probability: float = 0.0

    def __post_init__(self) -> None:
        for name in ("noise_multiplier", "sample_rate", "overflow_probability"):
            object.__setattr__(self, name, check_real(name, getattr(self, name)))
        if (
            not isinstance(self.steps, numbers.Integral)
            or isinstance(self.steps, bool)
            or self.steps < 1
        ):
            raise ArgumentError(
                "steps",
                self.steps,
                "an integer of at least 1",
                "Count optimiser steps, not epochs.",
            )
        object.__setattr__(self, "steps", int(self.steps))
