"""Whether the noise of a run can be drawn, and fits the ring, whatever its records are."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from extensions.errors import ArgumentError
from extensions.layers.spec import ADDITIVE
from extensions.layers.tally import opened_bits, sensitivity
from extensions.protocols.dpsgd_plan import check_multiplier
from extensions.protocols.noise import least_sigma, most_sigma, party_variance
from extensions.protocols.noisy_sums import second_moment, statistics
from extensions.protocols.noisy_sums.additive import basis, training
from extensions.runs.config.run_config import RunConfig

_EPSILONS = {
    "noise_multiplier": "epsilon",
    "noise_multiplier_init": "epsilon_init",
    "noise_multiplier_whiten": "epsilon",
    "noise_multiplier_counts": "epsilon",
}
"""Of what each noise follows, if it is not given."""


def check_noise(config: RunConfig) -> None:
    """Checks that no noise is too narrow or too wide for the ring.

    Raises:
        ArgumentError: one is; it names the epsilon that the noise follows from, if there is one.
    """
    if config.evaluate == "noisy":
        unit, bits, given = 1.0, config.frac_bits, f" with frac_bits = {config.frac_bits}"
        if config.judged == "all":
            unit, bits = sensitivity(config.classes), opened_bits(config.classes, bits)
            given = given if bits == config.frac_bits else ""
        _check_opened(config, "count_noise", [unit], bits, given)
    if not config.private:
        return
    people = config.rows_per_unit
    grid = 2 * second_moment.FRAC_BITS
    if config.whiten:
        _check_opened(config, "noise_multiplier_whiten", second_moment.sigmas(people), grid)
    if config.method == "statistics":
        unit = statistics.sensitivity(config.classes, people)
        _check_opened(config, "noise_multiplier", statistics.sigmas(unit, config.classes), grid)
        return
    if config.model == ADDITIVE:
        columns = len(config.grid.columns) if config.grid is not None else 1
        reach = [people * bound for bound in basis.bounds(columns)]
        _check_opened(config, "noise_multiplier", reach, basis.OPENED_BITS)
        counted = [training.counts_sensitivity(columns, config)]
        _check_opened(config, "noise_multiplier_counts", counted, training.COUNT_BITS)
        return
    drawn = config.parties + config.dealer_noise
    joint = drawn * party_variance(drawn, config)
    for name, variance in (("noise_multiplier", joint), ("noise_multiplier_init", 1.0)):
        with _named(config, name):
            check_multiplier(config, getattr(config, name) or 0.0, variance)


def _check_opened(
    config: RunConfig, name: str, unit: Sequence[float], frac_bits: int, given: str = ""
) -> None:
    """Checks that the noise of that name is 0, or arrays can be opened with it.

    Where it is 1, their deviations are `unit`; the range follows from what is `given`, in words.
    """
    bounds = least_sigma, most_sigma
    least, most = (bound(config.parties, frac_bits=frac_bits, split=config) for bound in bounds)
    least, most, value = least / min(unit), most / max(unit), getattr(config, name)
    if value and not least <= value < most:
        allowed = f"in {least:.3g}..{most:.3g}{given}"
        with _named(config, name):
            raise ArgumentError(name, value, allowed)


@contextmanager
def _named(config: RunConfig, name: str) -> Iterator[None]:
    """An error is of the setting of that name, or of the epsilon that it follows from."""
    try:
        yield
    except ArgumentError as error:
        epsilon = _EPSILONS.get(name, name)
        given = getattr(config, epsilon)
        if epsilon == name or not config.settled or given is None:
            raise error.of(name) from None
        rule = f"such that {name}, here {error.value:.3g}, is {error.rule}"
        raise ArgumentError(epsilon, given, rule) from None
