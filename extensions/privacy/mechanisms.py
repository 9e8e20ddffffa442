"""The Poisson-subsampled Gaussian mechanism, who is its neighbour, and the ranges of arguments."""

import warnings
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

from extensions.errors import ArgumentError, PrivacyWarning
from extensions.rules import Between, Whole, check_fields

Neighbours = Literal["add-remove", "replace"]
"""Which two data sets epsilon cannot tell apart. Numbers of records are public under both.

"add-remove": one record counts, or there is a null record in its place, whose contribution to every
sum is zero, as a padding row's is. A record of zero features is none: its bias and label count.
"replace": one record is another one. It costs more, up to twice and beyond at the same delta.
"""
NEIGHBOURS: tuple[Neighbours, ...] = get_args(Neighbours)

_RANGES = {
    "epsilon": Between(
        0.0, above=True, words="a finite number above 0", hint="Common values are 1 to 10."
    ),
    "delta": Between(
        0.0,
        1.0,
        above=True,
        below=True,
        words="a number above 0 and below 1",
        hint="Choose it well below one over the number of records.",
    ),
    "sample_rate": Between(
        0.0,
        1.0,
        above=True,
        words="a number above 0 and at most 1",
        hint="It is the expected batch size over the number of records.",
    ),
    "noise_multiplier": Between(
        0.0,
        words="a finite number of at least 0",
        hint="It is the standard deviation of the noise over the clipping norm.",
    ),
    "overflow_probability": Between(
        0.0,
        1.0,
        below=True,
        words="a number of at least 0 and below 1",
        hint="It is the probability that a padded batch was too small, over the whole run.",
    ),
}

WEAK_EPSILON = 20.0
"""Above it somebody who knows the other records can be all but sure whether one was there."""
_LARGEST_EPSILON = 1e4

LESS_OVERFLOW = "A smaller one pads batches to more rows. Or give a larger delta."
"""What to do where overflow takes too much of delta."""


def check_real(name: str, value: Any) -> float:
    """Returns the value as a float that lies in the range of the argument of that name."""
    _RANGES[name].check(name, value)
    return float(value)


def check_target(
    epsilon: float,
    name: str = "epsilon",
    *,
    largest: float = _LARGEST_EPSILON,
    advice: str = "A larger one protects nothing. To train without privacy, give {private=False}.",
) -> float:
    """The epsilon that somebody asks for, as a float; a large one is warned of."""
    try:
        wanted = check_real("epsilon", epsilon)
    except ArgumentError as error:
        raise error.of(name) from None
    if wanted > largest:
        raise ArgumentError(name, epsilon, f"at most {largest:g}", advice, code="range")
    if wanted > WEAK_EPSILON:
        warnings.warn(weakness(name, wanted), PrivacyWarning, stacklevel=1)  # once a process
    return wanted


def weakness(name: str, epsilon: float) -> str:
    """Returns what a large epsilon means."""
    return (
        f"{name} = {epsilon:.4g} protects little: it hardly limits what the result says of a "
        "single record. Common values are 1 to 10."
    )


@dataclass(frozen=True, kw_only=True)
class SubsampledGaussian:
    """`steps` Gaussian mechanisms, each on a Poisson sample of the records.

    Attributes:
        noise_multiplier: standard deviation over clipping norm, after the noise that a curious
            party can subtract has been taken off.
        sample_rate: probability with which a record enters a step, independently of all others.
        overflow_probability: probability, over all the steps together, that the sampling deviated
            from the analysed one because a padded batch was too small.
    """

    noise_multiplier: Annotated[float, _RANGES["noise_multiplier"]]
    sample_rate: Annotated[float, _RANGES["sample_rate"]]
    steps: Annotated[int, Whole(1, hint="Count optimiser steps, not epochs.")]
    overflow_probability: Annotated[float, _RANGES["overflow_probability"]] = 0.0

    def __post_init__(self) -> None:
        check_fields(self)
