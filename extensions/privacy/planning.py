"""What a run settles before it starts: the noise of its phases, and how batches may overflow."""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from extensions.errors import ArgumentError
from extensions.privacy.calibration import calibrate_noise
from extensions.privacy.composition import privacy_curve, smallest_delta, total_epsilon
from extensions.privacy.mechanisms import Neighbours, SubsampledGaussian
from extensions.privacy.sampling import OVERFLOW_PROBABILITY

SHARE = 0.05
"""Of delta, that one phase's overflow may take."""

_LARGEST = 600.0  # epsilon beyond which no probability above 0 is small enough


@dataclass(frozen=True, kw_only=True)
class Phase(SubsampledGaussian):
    """Subsampled Gaussian steps, whose noise is given or follows from a target.

    Attributes:
        epsilon: target of all phases up to this one together; None: the noise is given.
        share: of 1 / sigma^2 of one that alone has this epsilon, which the phase takes; None: all
            that those before it leave.
        padded: whether samples are padded to a public size, beyond which they may be.
    """

    epsilon: float | None = None
    share: float | None = None
    padded: bool = True


@dataclass(frozen=True, kw_only=True)
class Target:
    """For whom all phases together are private, and how noise follows from it."""

    delta: float
    neighbours: Neighbours
    calibration: str


def allowed_overflow(*, epsilon: float, delta: float) -> float:
    """Returns how probable it may be that a batch of a run is too small for its sample.

    It is 1e-9, or less where that would take more than 5 % of delta: (1 + exp(epsilon)) times the
    probability is taken off it. 0, where no probability is small enough: then batches have room for
    all records. Without any protection (epsilon infinite) there is nothing to weigh: 1e-9.

    Args:
        epsilon: that the run may reach; for replaced records, if that is to be known too.
    """
    if epsilon == math.inf:
        return OVERFLOW_PROBABILITY
    if epsilon > _LARGEST:
        return 0.0
    return min(OVERFLOW_PROBABILITY, SHARE * delta / (1 + math.exp(epsilon)))


@functools.lru_cache(maxsize=64)
def plan(phases: tuple[Phase, ...], target: Target) -> tuple[tuple[float, ...], float]:
    """Returns the noise multiplier of each phase, and the overflow probability of each.

    Guarantees:
        All phases, with noise and overflow of that size, have an epsilon that the "pld" accountant
        can tell at delta, for the target's neighbours. The overflow is `allowed_overflow` of the
        epsilon that they have for replaced records, the larger one, so that both can be told; 0
        if none is padded.
    """
    _check_delta(phases, target.delta)
    rough = _calibrated(phases, 0.0, target)
    overflow = 0.0
    if any(each.padded for each in phases):
        curve = privacy_curve(rough, "pld", "replace", coarse=True)
        overflow = allowed_overflow(epsilon=curve(target.delta * (1 - SHARE)), delta=target.delta)
    settled = _calibrated(phases, overflow, target) if overflow else rough
    total_epsilon(settled, delta=target.delta, accountant="pld", neighbours=target.neighbours)
    return tuple(each.noise_multiplier for each in settled), overflow


def _check_delta(phases: Sequence[Phase], delta: float) -> None:
    """Checks that the accountant that tells the run's epsilon can do so at delta."""
    steps = [
        SubsampledGaussian(noise_multiplier=1.0, sample_rate=each.sample_rate, steps=each.steps)
        for each in phases
    ]
    least = smallest_delta(steps, "pld")
    if delta <= least:
        raise ArgumentError(
            "delta",
            delta,
            f"above {least:.3g}, the rounding error of the accountant over all steps",
            "Give a larger one; 1 / (10 records) is usual.",
        )


def _calibrated(
    phases: Sequence[Phase], overflow: float, target: Target
) -> list[SubsampledGaussian]:
    """The phases with their noise: one after the other, each beside those before it."""
    settled: list[SubsampledGaussian] = []
    for phase in phases:
        probability = phase.overflow_probability + (overflow if phase.padded else 0.0)
        noise = phase.noise_multiplier
        if phase.epsilon is not None:
            noise = calibrate_noise(
                epsilon=phase.epsilon,
                delta=target.delta,
                sample_rate=phase.sample_rate,
                steps=phase.steps,
                calibration=target.calibration,
                overflow_probability=probability,
                neighbours=target.neighbours,
                beside=settled if phase.share is None else (),
            ) / math.sqrt(phase.share or 1.0)
        settled.append(
            SubsampledGaussian(
                noise_multiplier=noise,
                sample_rate=phase.sample_rate,
                steps=phase.steps,
                overflow_probability=probability,
            )
        )
    return settled
