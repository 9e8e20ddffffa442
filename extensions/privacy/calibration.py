"""Epsilon of a DPSGD run, and the noise that a wanted epsilon takes."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from extensions.errors import ArgumentError
from extensions.privacy.composition import (
    ACCOUNTANTS,
    check_pair,
    privacy_curve,
    smallest_delta,
    solve_overflow,
    total_epsilon,
)
from extensions.privacy.mechanisms import (
    LESS_OVERFLOW,
    Neighbours,
    SubsampledGaussian,
    check_real,
    check_target,
)
from extensions.rules import one_of

CALIBRATIONS = (*ACCOUNTANTS, "paper")

_PAPER_LIMIT = 8 - 4 * math.sqrt(2)
_PRECISION = 5e-5  # relative, of a calibrated noise multiplier
_LARGEST_NOISE = 1e12


def epsilon(
    *,
    noise_multiplier: float,
    sample_rate: float,
    steps: int,
    delta: float,
    accountant: str = "pld",
    overflow_probability: float = 0.0,
    neighbours: Neighbours = "add-remove",
) -> float:
    """Returns an upper bound on epsilon of Poisson-subsampled Gaussian steps.

    Args:
        noise_multiplier: standard deviation of the noise over the clipping norm, after a curious
            party has subtracted the noise that it knows. For example, with n parties that each add
            variance v, a party faces (n - 1) v.
        sample_rate: probability with which each record enters a batch.
        delta: wanted, of the whole run.
        accountant: "pld" (privacy loss distributions, tight) or "rdp" (Renyi, looser, fast; for
            "add-remove" alone).
        overflow_probability: probability, over the whole run, that a batch padded to a public
            size overflowed, so that the sampling deviated from the analysed one.
        neighbours: "add-remove" (one record, or a null record in its place) or "replace" (one
            record, or another); see `Neighbours`. Numbers of records are public under both.

    Guarantees:
        The run is (result, delta)-differentially private for such neighbours. With overflow
        probability b the result is the smallest e whose delta'(e) + (1 + exp(e)) b is at most
        delta, where delta' is that of the analysed run.

    Edge cases:
        A noise multiplier of 0, or one too small to protect (1e-3), gives infinity. A
        sample rate of 1 is composed exactly, as one Gaussian.

    Raises:
        ArgumentError: an argument lies outside its range, delta is below the accountant's
            rounding error, or the overflow probability leaves nothing of delta.

    Examples:
        >>> from extensions.privacy.accounting import epsilon
        >>> round(epsilon(noise_multiplier=1.0, sample_rate=0.01, steps=1000, delta=1e-5), 2)
        1.83
    """
    mechanism = SubsampledGaussian(
        noise_multiplier=noise_multiplier,
        sample_rate=sample_rate,
        steps=steps,
        overflow_probability=overflow_probability,
    )
    delta = check_real("delta", delta)
    one_of(ACCOUNTANTS).check("accountant", accountant)
    return total_epsilon([mechanism], delta=delta, accountant=accountant, neighbours=neighbours)


def calibrate_noise(
    *,
    epsilon: float,
    delta: float,
    sample_rate: float,
    steps: int,
    calibration: str = "pld",
    overflow_probability: float = 0.0,
    neighbours: Neighbours = "add-remove",
    beside: Sequence[SubsampledGaussian] = (),
) -> float:
    """Returns the smallest noise multiplier for (epsilon, delta)-differential privacy.

    Args:
        epsilon: wanted of the whole run, with what is beside it, at delta; at most 10,000, and
            above 20 with a `PrivacyWarning`.
        calibration: "pld", "rdp", or "paper" for 2 sqrt(steps ln(1/delta)) / epsilon.
        neighbours: as for `epsilon`, and so is `overflow_probability`; "replace" with "pld" alone.
        beside: other mechanisms on the same records, composed with the run.

    Guarantees:
        With "pld" and "rdp" the accountant's epsilon, of all together, is at most the wanted one,
        and the result at most 5e-5 (relative) above the smallest such value.

    Source:
        "paper": Ruan et al., S&P 2023, Protocol 3: sigma >= 2 C sqrt(T log(1/delta)) / epsilon.

    Deviation:
        The paper's noise ignores subsampling, and is far more than the accountants ask for. It
        proves the guarantee (by concentrated differential privacy) only for epsilon <=
        (8 - 4 sqrt(2)) ln(1/delta) (test_paper_formula_fails_past_its_limit). More is refused. It
        holds for "add-remove", and for the sum of steps over squared noise, beside the run as well.

    Raises:
        ArgumentError: an argument out of range, or no noise can give the guarantee.

    Examples:
        >>> from extensions.privacy.accounting import calibrate_noise, epsilon
        >>> noise = calibrate_noise(epsilon=2.0, delta=1e-5, sample_rate=0.1, steps=100)
        >>> round(noise, 2)
        2.25
    """
    epsilon, delta = check_target(epsilon), check_real("delta", delta)
    one_of(CALIBRATIONS).check("calibration", calibration)
    check_pair(calibration, neighbours, "calibration")
    run = SubsampledGaussian(
        noise_multiplier=1.0,
        sample_rate=sample_rate,
        steps=steps,
        overflow_probability=overflow_probability,
    )
    overflow = math.fsum(each.overflow_probability for each in (run, *beside))
    left = _delta_left(epsilon, delta, overflow)
    if calibration == "paper":
        return _paper_noise(epsilon, left, steps, beside)
    if left <= (least := smallest_delta([run, *beside], calibration)):
        allowed = f"above {delta - left + least:.3g}, overflow and rounding error of these steps"
        advice = "Use {calibration=rdp} or pad the batches to a larger size."
        raise ArgumentError("delta", delta, allowed, advice)

    def spent(*own: SubsampledGaussian, coarse: bool = False) -> float:
        curve = privacy_curve([*own, *beside], calibration, neighbours, coarse=coarse)
        return solve_overflow(curve, delta=delta, overflow=overflow)

    return _accounted_noise(spent, run, epsilon, left, coarse_first=calibration == "pld")


def _accounted_noise(
    spent: Callable[..., float],
    run: SubsampledGaussian,
    epsilon: float,
    delta: float,
    *,
    coarse_first: bool,
) -> float:
    """The smallest noise with which the run and what is beside it spend at most epsilon.

    Args:
        spent: what mechanisms and all that is beside them cost; without any the latter alone.
        delta: what overflow leaves of it.
    """
    if (least := spent()) >= epsilon:
        raise ArgumentError(
            "epsilon",
            epsilon,
            f"above {least:.6g}, which is spent outside of the steps",
            "Give a larger one, or spend less there.",
        )

    def cost(noise: float, coarse: bool) -> float:
        return spent(replace(run, noise_multiplier=noise), coarse=coarse)

    start = run.sample_rate * math.sqrt(2 * run.steps * math.log(1.25 / delta)) / epsilon
    return smallest_noise(cost, epsilon, start=start, coarse_first=coarse_first)


def _delta_left(epsilon: float, delta: float, overflow: float) -> float:
    """What (1 + exp(epsilon)) times the overflow probability leaves of delta, above 0."""
    if overflow == 0:
        return delta
    left = delta - (1 + math.exp(min(epsilon, 700.0))) * overflow
    if left <= 0:
        raise ArgumentError(
            "overflow_probability",
            overflow,
            f"below delta / (1 + exp(epsilon)) = {delta / (1 + math.exp(min(epsilon, 700))):.3g}",
            LESS_OVERFLOW,
        )
    return left


def _paper_noise(
    epsilon: float, delta: float, steps: int, beside: Sequence[SubsampledGaussian]
) -> float:
    """The paper's noise multiplier, for an epsilon at which it proves the guarantee."""
    largest = _PAPER_LIMIT * math.log(1 / delta)
    if epsilon > largest:
        raise ArgumentError(
            "epsilon",
            epsilon,
            f"at most {largest:.4g} for this delta, the limit of the paper's formula",
            "Use {calibration=pld}.",
        )
    whole = epsilon**2 / (4 * math.log(1 / delta))
    spent = math.fsum(
        each.steps / each.noise_multiplier**2 if each.noise_multiplier else math.inf
        for each in beside
    )
    if spent >= whole:
        raise ArgumentError(
            "epsilon",
            epsilon,
            f"above {epsilon * math.sqrt(spent / whole):.6g}, which is spent outside of the steps",
            "Give a larger one, or spend less there.",
        )
    return math.sqrt(steps / (whole - spent))


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
            allowed = "large enough for this accountant to reach with some noise"
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
