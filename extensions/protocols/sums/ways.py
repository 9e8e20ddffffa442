"""From the settings of a run to the way in which it learns."""

from functools import partial

from extensions.protocols.agreement import NOTHING, Statement
from extensions.protocols.host import Host
from extensions.protocols.pea import Own, Way, descend
from extensions.protocols.records import Records
from extensions.protocols.settings import Training
from extensions.protocols.step import Step
from extensions.protocols.sums.open_steps import descend_openly
from extensions.protocols.sums.statistics import check_statistics, fit


def agreed(
    host: Host, config: Training, own: Own, statement: Statement = NOTHING
) -> tuple[Records, Way]:
    """Returns the records, once all parties have such that fit, and how the run learns of them.

    It takes one round. Where records, settings or steps do not fit, it fails in every party.
    """
    records = Records.agreed(host.exchange, own.train, statement, own.problem)
    return records, way_of(config, records)


def way_of(config: Training, records: Records) -> Way:
    """Returns how a run gets from its start to the trained model, its bounds proven."""
    if config.method == "statistics":
        check_statistics(config, records)
        return Way(None, partial(fit, config))
    step = Step.of(config, records)
    return Way(step, partial(descend if config.hidden else descend_openly, step))
