"""Plaintext as a host: the same arithmetic, sampling and noise, and nobody to hide from."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from extensions.layers.passes import Parameters
from extensions.protocols.host import Compute, Host, Placed, Speed, StepForecast, Tell, flat, pairs
from extensions.ring.clear import ClearRing, Coins
from extensions.ring.fixed_point import Integers
from extensions.ring.interface import NoiseSource
from extensions.runs.config.run_time import work

_BESIDE = 0.5
"""Seconds of a run beside its steps, about."""


def plaintext_speed() -> Speed:
    """Returns how fast one process computes on plaintext."""
    return Speed(work=work(), overhead=_BESIDE)


class ClearHost(Host):
    """One program that has all owners' records in the clear.

    Noise is summed over as many draws as there are parties; coins are of rounding, by default
    fresh.
    """

    holders = (0,)

    def __init__(
        self,
        frac_bits: int,
        *,
        parties: int,
        owners: int,
        source: NoiseSource,
        coins: Coins | None = None,
    ) -> None:
        self.ring = ClearRing(frac_bits, parties=parties, seed=coins)
        self.noise = source
        self.ranks = range(owners)

    def forecast(self, config: Any, records: Any, step: Any, tell: Tell) -> None:
        """Has told that nothing is sent."""
        tell(StepForecast(0, 0), plaintext_speed())

    def share_rows(self, rows: Sequence[int], own: Placed) -> list[Integers]:
        """Returns all owners' rows, one's after the other's."""
        return [np.concatenate(column) for column in zip(*own, strict=True)]

    def summands(self, model: Parameters, compute: Compute = flat) -> list[list[Integers]]:
        """Returns what is computed itself, as the only summand."""
        return [list(compute(model))]

    def restore(self, summands: Sequence[Sequence[Integers]]) -> Parameters:
        """Returns the model."""
        (model,) = summands
        return pairs(model)
