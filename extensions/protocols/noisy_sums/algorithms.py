"""From the settings of a run to its algorithm."""

from functools import partial
from typing import Any

from extensions.data.features.networks.adapters import Adapted
from extensions.layers.spec import ADDITIVE
from extensions.protocols.agreement import NOTHING, Statement
from extensions.protocols.host import Host
from extensions.protocols.noisy_sums.adapter_step import AdapterStep
from extensions.protocols.noisy_sums.additive.grid import CellGrid
from extensions.protocols.noisy_sums.additive.training import fit_additive
from extensions.protocols.noisy_sums.open_steps import descend_openly
from extensions.protocols.noisy_sums.statistics import check_statistics, fit
from extensions.protocols.pea import Algorithm, LocalData, descend
from extensions.protocols.records import Records
from extensions.protocols.settings import Training
from extensions.protocols.step import Step


def agree_on_algorithm(
    host: Host,
    config: Training,
    own: LocalData,
    statement: Statement = NOTHING,
    grid: CellGrid | None = None,
    encoder: Adapted | None = None,
) -> tuple[Records, Algorithm]:
    """Returns the records, once all parties have such that fit, and how the run learns of them.

    An additive model needs the grid of its columns, and adapters their encoder. It takes one round.
    Where records, settings or steps do not fit, it fails in every party.
    """
    records = Records.agreed(host.exchange, own.train, statement, own.problem, split=config.split)
    return records, algorithm_of(config, records, grid, encoder)


def algorithm_of(
    config: Training,
    records: Records,
    grid: CellGrid | None = None,
    encoder: Adapted | None = None,
) -> Algorithm:
    """Returns how a run gets from its start to the trained model, its bounds proven."""
    if config.method == "statistics":
        check_statistics(config, records)
        return Algorithm(None, partial(fit, config))
    if config.model == ADDITIVE:
        assert grid is not None
        terms: dict[str, Any] = {}
        return Algorithm(None, partial(fit_additive, config, grid, terms), terms)
    step = Step.of(config, records)
    if encoder is not None:
        step = AdapterStep.behind(step, encoder)
    return Algorithm(step, partial(descend if config.hidden else descend_openly, step))
