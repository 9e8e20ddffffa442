"""Settings of an additive model: they follow from public facts, and are told before it is trained.

With n records, F columns and s the deviation of the noise of a count, of all parties together,

    q = n / (4 s)

is how many bins a column can have whose counts are four deviations above nothing. It decides how
finely a number's range is counted, and whether a linear model learns more:

    q >= 8          188 cells a number, with "missing"; a tenth of the budget, 1 / sigma^2
    2 <= q < 8      28 cells a number; a fifth of it
    q < 2           8 even bins, nothing is counted; a linear model is better, and is
                    taken where nobody names one: on eleven tables at epsilon 0.5, 1 and 2
                    that choice is within 0.005 of the better model on average

eta = min(0.4, 8 / F), in round(12 / eta) rounds.
"""

import math
from typing import NamedTuple

from extensions.data.schema import Schema
from extensions.errors import ArgumentError
from extensions.privacy.calibration import calibrate_noise
from extensions.protocols.noise import noise_without
from extensions.protocols.noisy_sums.additive.training import counts_sensitivity
from extensions.protocols.settings import Cells
from extensions.runs.config.run_config import RunConfig

FINE, COARSE = 8.0, 2.0
SHARES: dict[Cells, float] = {"fine": 0.1, "coarse": 0.2, "equal": 0.0}
"""Of the budget, 1 / sigma^2, that counts take."""
MOST_STEP, STEP, ROUNDS = 0.4, 8.0, 12.0


class AdditiveSettings(NamedTuple):
    """What follows.

    Attributes:
        bins: q, how many a column can have.
    """

    bins: float
    cells: Cells
    eta: float
    steps: int


def additive_settings(config: RunConfig, records: int) -> AdditiveSettings:
    """Returns the settings of an additive model.

    Args:
        config: of the run, whose facts have a schema.
        records: number of all parties' training records, or persons; public.
    """
    schema = Schema.of_facts(config.facts)
    if schema is None:
        hint = "`pea schema` drafts one."
        raise ArgumentError("schema", None, "with {model=additive}", hint, code="missing")
    columns = len(schema.columns)
    eta = float(f"{min(MOST_STEP, STEP / columns):.6g}")
    steps = config.steps if "steps" not in config.chosen else round(ROUNDS / eta)
    fine = config.derived(cells="fine")
    noise = _noise_of_all(config, steps) / math.sqrt(SHARES["fine"])
    wider = noise_without(config.parties, 0, config)
    deviation = noise * wider * counts_sensitivity(columns, fine)
    bins = records / (4.0 * deviation) if deviation else math.inf
    cells: Cells = "fine" if bins >= FINE else "coarse" if bins >= COARSE else "equal"
    return AdditiveSettings(bins, cells, eta, steps)


def bins_told(config: RunConfig, records: int) -> float | None:
    """Returns q of a run over a table with a schema, which has one in any mode; None of others.

    Args:
        config: resolved settings.
        records: as in `additive_settings`.
    """
    if not config.private or config.method != "pea" or Schema.of_facts(config.facts) is None:
        return None
    return additive_settings(config, records).bins


def noise_of_counts(config: RunConfig) -> float:
    """Returns the noise multiplier of counts that goes with one of rounds that is given."""
    share = SHARES[config.cells]
    if not share:
        return 0.0
    return config.noise * math.sqrt((1.0 - share) / (share * config.steps))


def _noise_of_all(config: RunConfig, steps: int) -> float:
    """Returns the noise multiplier of a single sum that takes all of the budget."""
    if config.epsilon is None:
        return config.noise * math.sqrt((1.0 - SHARES["fine"]) / steps)
    assert config.delta is not None
    return calibrate_noise(
        epsilon=config.epsilon,
        delta=config.delta,
        sample_rate=1.0,
        steps=1,
        calibration=config.calibration,
        neighbours=config.neighbours,
    )
