"""The model after every step of a run, opened, on whichever host."""

from collections.abc import Sequence

import numpy as np

from extensions.privacy.accounting import Ledger
from extensions.privacy.sampling import OwnRecords
from extensions.protocols import pea
from extensions.protocols.announcement import announce
from extensions.protocols.host import Host, share_public
from extensions.protocols.optimizer import State
from extensions.protocols.settings import Training
from extensions.ring.fixed_point import Integers


class Opened(pea.Keep):
    """Opens the model after each step.

    Args:
        host: of the run.
        steps: numbers of those that are made.
    """

    def __init__(self, host: Host, steps: range) -> None:
        super().__init__(host)
        self._steps = steps
        self.models: list[list[Integers]] = []

    def steps(self, config: Training) -> range:
        """Returns the numbers of the steps that are to be made."""
        return self._steps

    def __call__(self, step: int, state: State, ledger: Ledger) -> None:
        """Takes the model after a step."""
        self.models.append([np.array(part) for part in self._host.open(self._summands(state))])

    def _summands(self, state: State) -> Sequence[Sequence[Integers]]:
        return self._host.summands(state.model)


def trajectory(
    host: Host,
    config: Training,
    records: Sequence[OwnRecords],
    start: Sequence[Integers],
    steps: range,
) -> list[list[Integers]]:
    """Returns weights and biases after each step, in units of an ulp.

    Args:
        host: whose parties own the records.
        config: of the run.
        records: of this program's owners.
        start: each weight and bias in turn, public.
        steps: numbers of those that are made, which may be some of the run's.
    """
    begun = State.begin(host, config, share_public(host, start))
    keep = Opened(host, steps)
    pea.descend(host, config, announce(host.exchange, records, {}), begun, Ledger(), keep)
    return keep.models
