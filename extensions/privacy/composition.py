"""Differential privacy of composed, Poisson-subsampled Gaussian mechanisms.

Relations: `extensions.privacy.mechanisms.Neighbours`. With rate q and noise of variance s^2 one
step is dominated, for every epsilon, by the pair

- "add-remove": (1-q) N(0, s^2) + q N(1, s^2) against N(0, s^2), in either order;
- "replace": (1-q) N(0, s^2) + q N(1, s^2) against (1-q) N(0, s^2) + q N(-1, s^2).

The reason for the second: a set of mass a under N(0, s^2 I) has a mass of at most F(G(a) + 1/s)
under the normal law moved by a vector of norm 1, and of at least F(G(a) - 1/s), where F and G are
the normal distribution function and its inverse; a half-line attains both at once. A norm below 1
gives less, and so no epsilon for "replace" is below that for "add-remove".

Results are upper bounds: the privacy loss distribution is discretised pessimistically
(connect-the-dots), and rounding errors of the accountants are charged to delta or to the Renyi
divergence.
"""

import contextlib
import logging
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

from extensions.errors import ArgumentError
from extensions.privacy.accountant_cache import cached
from extensions.privacy.mechanisms import LESS_OVERFLOW, NEIGHBOURS, Neighbours, SubsampledGaussian
from extensions.rules import one_of

ACCOUNTANTS = ("pld", "rdp")
FILTER = "filter"
"""The accountant of phases whose settings may follow from the results of earlier ones.

For one order, fixed beforehand, Renyi divergences of such phases add up: whoever stops before a
bound B is passed is (order, B)-RDP (Feldman and Zrnic, 2021; Lecuyer, 2021). With K orders, whoever
stops before all K bounds are passed ends, on each path, as with one of them, whose part of delta is
delta / K. So epsilon is that of the best order at delta / K. It holds as a cap that is set before
the first phase, whatever is chosen after it.
"""

_FILTER_ORDERS = (1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64)

_NO_PROTECTION = 1e-3  # below this noise multiplier epsilon is reported as infinite
_ENOUGH = 1e12  # more noise than this is counted as this much
_PLD_ROUNDING = 1e-15  # delta charged per sampled step: FFT errors measure 3e-17 per step
_STAGE = 100_000  # steps composed at a time
_RDP_ROUNDING = 1e-14  # Renyi divergence charged per step: its logarithms may come out below zero

Counts = dict[tuple[float, float], int]  # (noise multiplier, sample rate) -> steps
Curve = Callable[[float], float]  # delta -> upper bound on epsilon


def check_pair(accountant: str, neighbours: str, name: str = "accountant") -> None:
    """Checks that that accountant, or calibration, can bound epsilon for those neighbours."""
    one_of(NEIGHBOURS).check("neighbours", neighbours)
    if neighbours == "replace" and accountant != "pld":
        advice = "For Poisson samples there, it has the only proven bound."
        raise ArgumentError(name, accountant, "'pld' with {neighbours=replace}", advice)


def smallest_delta(mechanisms: Iterable[SubsampledGaussian], accountant: str) -> float:
    """The delta that rounding errors take up; the accountant can certify nothing below it."""
    if accountant != "pld":
        return 0.0
    return _PLD_ROUNDING * (1 + sum(m.steps for m in mechanisms if m.sample_rate < 1))


def privacy_curve(
    mechanisms: Iterable[SubsampledGaussian],
    accountant: str,
    neighbours: Neighbours,
    *,
    coarse: bool = False,
) -> Curve:
    """A function from delta to an upper bound on epsilon of the composed mechanisms.

    Overflow is not in it, see `solve_overflow`. `coarse` trades accuracy (some 1e-3 relative) for
    speed; the result stays an upper bound. Full-batch steps are merged into one Gaussian.
    """
    mechanisms = list(mechanisms)
    counts: Counts = defaultdict(int)
    full_batch = 0.0  # sum of steps / noise_multiplier**2
    for m in mechanisms:
        if m.noise_multiplier < _NO_PROTECTION:
            return lambda delta: math.inf
        noise = min(m.noise_multiplier, _ENOUGH)
        if m.sample_rate == 1:
            full_batch += m.steps / noise**2
        else:
            counts[noise, m.sample_rate] += m.steps
    if full_batch:
        counts[full_batch**-0.5, 1.0] = 1
        if full_batch**-0.5 < _NO_PROTECTION:
            return lambda delta: math.inf
    if not counts:
        return lambda delta: 0.0

    check_pair(accountant, neighbours)
    if accountant == "rdp":
        return _renyi_curve(counts)
    if accountant == FILTER:
        curve = _renyi_curve(counts, _FILTER_ORDERS)
        return lambda delta: curve(delta / len(_FILTER_ORDERS))
    interval = _interval(counts, neighbours, coarse)
    return _pld_curve(counts, neighbours, interval, smallest_delta(mechanisms, accountant))


def solve_overflow(curve: Curve, *, delta: float, overflow: float, offset: float = 0.0) -> float:
    """The smallest e with offset + curve(delta - (1 + exp(e)) overflow) <= e, or infinity.

    A run within total-variation distance `overflow` of an (e, d)-private one is
    (e, d + (1 + exp(e)) overflow)-private. The least fixed point is approached from below with a
    margin that grows from 1e-9 at every iteration, so that the result is never too small.
    """
    if overflow == 0:
        return offset + curve(delta)
    reached, margin = offset, 0.0
    while True:
        candidate = reached + margin
        if candidate >= math.log(delta / overflow):
            return math.inf
        spare = delta - (1 + math.exp(candidate)) * overflow
        if spare <= 0:
            return math.inf
        needed = offset + curve(spare)
        if needed <= candidate:
            return candidate
        reached, margin = needed, max(1e-9, 2 * margin)


def total_epsilon(
    mechanisms: Sequence[SubsampledGaussian],
    *,
    delta: float,
    accountant: str,
    neighbours: Neighbours,
    offset: float = 0.0,
) -> float:
    """An upper bound on epsilon of the mechanisms beside releases that cost `offset` in all.

    It is found once for equal arguments (`extensions.privacy.accountant_cache`).
    """
    check_pair(accountant, neighbours)
    return cached(
        (tuple(mechanisms), delta, accountant, neighbours, offset),
        lambda: _find_epsilon(mechanisms, delta, accountant, neighbours, offset),
    )


def _find_epsilon(
    mechanisms: Sequence[SubsampledGaussian],
    delta: float,
    accountant: str,
    neighbours: Neighbours,
    offset: float,
) -> float:
    least = smallest_delta(mechanisms, accountant)
    if delta <= least:
        allowed = f"above {least:.3g}, the rounding error of the pld accountant over these steps"
        advice = "Use {accountant=rdp} or a larger {delta}."
        raise ArgumentError("delta", delta, allowed, advice, code="range")
    curve = privacy_curve(mechanisms, accountant, neighbours)
    overflow = math.fsum(m.overflow_probability for m in mechanisms)
    result = solve_overflow(curve, delta=delta, overflow=overflow, offset=offset)
    if result == math.inf and overflow > 0 and (plain := offset + curve(delta)) < math.inf:
        allowed = f"well below delta / (1 + exp({plain:.4g})), delta = {delta!r}"
        raise ArgumentError("overflow_probability", overflow, allowed, LESS_OVERFLOW, code="range")
    return result


def _renyi_curve(counts: Counts, orders: Sequence[float] | None = None) -> Curve:
    import dp_accounting as dp

    events = [
        dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(noise)), count)
        for (noise, rate), count in counts.items()
    ]
    rounding = dp.ZCDpEvent(rho=0.0, xi=_RDP_ROUNDING * sum(counts.values()))
    with _without_convergence_notes():
        renyi = dp.rdp.RdpAccountant(orders).compose(dp.ComposedDpEvent([*events, rounding]))
    return lambda delta: float(renyi.get_epsilon(delta))


def _pld_curve(counts: Counts, neighbours: Neighbours, interval: float, rounding: float) -> Curve:
    from dp_accounting import NeighboringRelation
    from dp_accounting.pld import privacy_loss_distribution

    relation = {
        "add-remove": NeighboringRelation.REPLACE_SPECIAL,
        "replace": NeighboringRelation.REPLACE_ONE,
    }[neighbours]
    total = privacy_loss_distribution.identity(interval)
    for (noise, rate), count in counts.items():
        step = privacy_loss_distribution.from_gaussian_mechanism(
            noise,
            sampling_prob=rate,
            value_discretization_interval=interval,
            neighboring_relation=relation,
        )
        # The library takes size**count as an exact integer, hence stages.
        stages, rest = divmod(count, _STAGE)
        if stages:
            total = total.compose(step.self_compose(_STAGE).self_compose(stages))
        if rest:
            total = total.compose(step.self_compose(rest))
    _forget_transforms()
    return lambda delta: (
        float(total.get_epsilon_for_delta(delta - rounding)) if delta > rounding else math.inf
    )


def _interval(counts: Counts, neighbours: Neighbours, coarse: bool) -> float:
    """A grid spacing that is fine against one step's loss and keeps the arrays in memory.

    The loss of a replaced record is that of one removed and one added.
    """
    sides = 2 if neighbours == "replace" else 1
    per_deviation, step_bins, total_bins = (10, 2e4, 4e5) if coarse else (40, 1.5e5, 4e6)
    finest, widest, total = math.inf, 0.0, 0.0
    for (noise, rate), count in counts.items():
        exponent = 1 / (2 * noise**2)
        tail = exponent + 10 / noise
        upper = tail + math.log(rate) if tail > 500 else math.log1p(rate * math.expm1(tail))
        lower = min(tail, -math.log1p(-rate)) if rate < 1 else tail
        deviation = sides * math.sqrt(
            min(
                rate**2 * math.expm1(min(2 * exponent, 500)),
                rate * ((1 - rate) * exponent**2 + 2 * exponent),
            )
        )
        finest = min(finest, min(deviation, 1 / noise) / per_deviation)
        width = sides * (upper + lower)
        widest = max(widest, width)
        # Central part of the sum, or what the library's Chernoff bound makes of it.
        total += max(18 * math.sqrt(count) * deviation, count * deviation**2 / width)
    # Below 2e-6 the differences that give the probabilities lose too many digits.
    return max(finest, 2e-6, widest / step_bins, total / total_bins)


@contextlib.contextmanager
def _without_convergence_notes() -> Iterator[None]:
    """Drops the library's notes on Renyi orders that it leaves out, which only loosens a bound."""
    logger = logging.getLogger("absl")

    def wanted(record: logging.LogRecord) -> bool:
        return "_compute_log_a_frac" not in record.getMessage()

    logger.addFilter(wanted)
    try:
        yield
    finally:
        logger.removeFilter(wanted)


def _forget_transforms() -> None:
    """Lets SciPy drop its plans of earlier Fourier transforms, each of which is as large as one.

    An accountant's arrays have another length for each number of steps, so that none serves again:
    the 16 plans of either kind that SciPy keeps, of up to 64 MB, would stay. Plans of the smallest
    lengths take their places.
    """
    import numpy as np
    from scipy import fft

    for length in range(2, 18):
        fft.fft(np.zeros(length, dtype=np.complex128))
        fft.rfft(np.zeros(length))
