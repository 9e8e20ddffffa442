"""What a run may choose of its optimizer; equal at all parties."""

import math
from typing import Literal, Protocol, get_args

from extensions.errors import ArgumentError
from extensions.protocols.dpsgd_plan import check_momentum
from extensions.protocols.optimizer.adam import FLOOR, Betas, check_floor
from extensions.protocols.optimizer.schedule import RateSchedule, multipliers

MOST_BIAS_BITS = 8

Optimizer = Literal["sgd", "adam"]


class Averaging(Protocol):
    """Of which iterates of a run the mean is taken."""

    @property
    def steps(self) -> int:
        """Number of updates."""

    @property
    def average(self) -> float:
        """The last part of the iterates, whose mean is the model; 0: the last one is."""


class Choices(Averaging, Protocol):
    """Settings of a run; `extensions.runs.config.TrainConfig` says what they mean."""

    @property
    def lr_schedule(self) -> RateSchedule:
        """How the learning rate falls."""

    @property
    def momentum(self) -> float:
        """What of an update goes into the next one."""

    @property
    def optimizer(self) -> Optimizer:
        """What a step makes of a noisy sum."""

    @property
    def beta1(self) -> float:
        """Of Adam's mean of gradients."""

    @property
    def beta2(self) -> float:
        """Of Adam's mean of their squares."""

    @property
    def adam_floor(self) -> float:
        """Adam's least second moment, in units of the noise's variance."""

    @property
    def bias_scale(self) -> float:
        """The input whose weights biases are; 0: there are none."""


def check_choices(choices: Choices) -> None:
    """Returns only if all of them are in range.

    Raises:
        ArgumentError: one is not.
    """
    check_momentum(choices.momentum)
    if choices.optimizer not in get_args(Optimizer):
        raise ArgumentError("optimizer", choices.optimizer, f"one of {get_args(Optimizer)}")
    _check_adam(choices)
    check_average(choices.average)
    multipliers(choices.lr_schedule, 1)
    bias_bits(choices.bias_scale)


def _check_adam(choices: Choices) -> None:
    usual = {"beta1": Betas.first, "beta2": Betas.second, "adam_floor": FLOOR}
    if choices.optimizer == "adam":
        Betas(choices.beta1, choices.beta2)
        check_floor("adam_floor", choices.adam_floor)
        if choices.momentum:
            raise ArgumentError("momentum", choices.momentum, "0 with adam, whose beta1 it is")
        return
    for name, value in usual.items():
        if getattr(choices, name) != value:
            allowed = "left out, but with optimizer = 'adam'"
            raise ArgumentError(name, getattr(choices, name), allowed)


def check_average(average: float) -> float:
    """Returns the part of the steps; ArgumentError if it is none."""
    if not 0.0 <= average <= 1.0:
        raise ArgumentError("average", average, "in 0..1, the part of the steps")
    return average


def iterates(choices: Averaging) -> int:
    """Returns how many of the last iterates the mean is taken of; at least the very last."""
    return max(1, round(choices.average * choices.steps))


def bias_bits(scale: float) -> int | None:
    """Returns b of a scale 2^-b; None of 0, for no bias.

    Raises:
        ArgumentError: another scale, with which sums of biases would not be exact.
    """
    if scale == 0.0:
        return None
    mantissa, exponent = math.frexp(scale)
    if mantissa != 0.5 or not 0 <= 1 - exponent <= MOST_BIAS_BITS:
        raise ArgumentError(
            "bias_scale",
            scale,
            f"0 for no bias, or a power of two in 2^-{MOST_BIAS_BITS}..1",
            "Other scales would be rounded, and the bound of each gradient with them.",
        )
    return 1 - exponent


def bias_bits_of_layers(scale: float, without: str) -> int:
    """Returns b of a scale 2^-b, for layers that say themselves whether they have biases.

    Args:
        scale: the input whose weights biases are.
        without: how a layer is made that has none.

    Raises:
        ArgumentError: as `bias_bits`, and of 0.
    """
    bits = bias_bits(scale)
    if bits is None:
        raise ArgumentError("bias_scale", scale, "above 0 here", f"Or make layers {without}.")
    return bits
