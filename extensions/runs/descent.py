"""Plaintext DPSGD over the records of one or several owners, with a secure run's arithmetic."""

from collections.abc import Sequence

import numpy as np

from extensions.network.passes import Parameters
from extensions.privacy.accounting import Ledger
from extensions.privacy.sampling import OwnRecords
from extensions.protocols import pea
from extensions.protocols.announcement import announce
from extensions.protocols.optimizer import State
from extensions.protocols.step import Step
from extensions.ring.interface import NoiseSource
from extensions.runs.clear_host import ClearHost
from extensions.runs.config import TrainConfig


def descend(
    config: TrainConfig,
    records: Sequence[OwnRecords],
    parameters: Parameters,
    source: NoiseSource,
    *,
    coins: np.random.Generator | None = None,
) -> Parameters:
    """Returns the parameters, ring integers, after `config.steps` steps.

    Args:
        config: resolved settings; `parties` decides over how many draws the noise is summed, and a
            single one draws all of it.
        records: every owner's training records.
        parameters: where it starts, ring integers.
        source: of sampling and noise.
        coins: of rounding; by default fresh ones.
    """
    host = ClearHost(
        config.frac_bits, parties=config.parties, owners=len(records), source=source, coins=coins
    )
    own = announce(host.exchange, records, {})
    begun = State.begin(host, config, parameters)
    step = Step.of(config, own)
    return pea.descend(step, host, own, begun, Ledger(), pea.Keep(host))
