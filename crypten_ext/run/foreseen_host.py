"""A party whose shares have no values, to say what its steps will take; no other party is there."""

from collections.abc import Iterator, Sequence

import torch

from crypten_ext.nn.foresight import process_memory
from crypten_ext.registry import enable
from crypten_ext.ring.crypten_ring import CrypTenRing
from crypten_ext.ring.exchange import DIRECT_BYTES
from crypten_ext.ring.factors import Factor
from crypten_ext.ring.foreseen import WORD, Foreseen
from crypten_ext.run.host import CrypTenHost
from extensions.privacy.randomness import SystemSource
from extensions.protocols.host import Batch, Placed, part_of
from extensions.protocols.optimizer import State, rule_of
from extensions.protocols.pea import plans, step_of
from extensions.ring.interface import NoiseSource
from extensions.runs.budget.forecast import StepForecast, announced
from extensions.runs.config import TrainConfig
from extensions.runs.providers import DEALINGS

import crypten


class ForeseenRing(CrypTenRing):
    """The first of so many parties.

    Args:
        frac_bits: fractional bits.
        parties: number of them.
    """

    parties = 0
    rank = 0

    def __init__(self, frac_bits: int, parties: int) -> None:
        super().__init__(frac_bits)
        self.parties = parties

    def add_noise(
        self, x: Sequence[torch.Tensor], scale: Sequence[float], source: NoiseSource
    ) -> list[torch.Tensor]:
        """Returns x: nothing is drawn."""
        return list(x)

    def add_dealt_noise(
        self, x: Sequence[torch.Tensor], scale: float, source: NoiseSource
    ) -> list[torch.Tensor]:
        """Returns x: nothing is dealt."""
        return list(x)


class ForeseenHost(CrypTenHost):
    """That party.

    Args:
        ring: without values.
        widths: of a record's features and of its labels.
    """

    def __init__(self, ring: ForeseenRing, widths: tuple[int, int]) -> None:
        super().__init__(ring.frac_bits, SystemSource())
        self.ring = ring
        self._widths = widths

    def samples(
        self, records: Placed, rows: Sequence[int], rate: float, pieces: int
    ) -> Iterator[Batch]:
        """Yields pieces of a batch without values."""
        for i in range(pieces):
            own = [part.stop - part.start for part in (part_of(n, i, pieces) for n in rows)]
            x, y = (_words(sum(own), width) for width in self._widths)
            features = Factor(x, own, _words(own[0], self._widths[0]))
            yield Batch(features, y, _words(sum(own)), _words(sum(own)))


def _words(*shape: int) -> torch.Tensor:
    return torch.empty(shape, dtype=torch.int64)


def plan(config: TrainConfig, sizes: Sequence[int], features: int) -> StepForecast:
    """Returns what a step of a run takes of its first party.

    Args:
        config: resolved settings.
        sizes: number of training records of each party.
        features: of a record.

    Raises:
        ArgumentError: of `announced` and of `plans`; or a provider whose tuples take rounds.
    """
    records = announced(config, sizes, features)
    network, step_plan, _ = plans(config, records)
    crypten.init()
    enable()
    crypten.cfg.mpc.provider = DEALINGS[config.provider].host_name
    try:
        ring = ForeseenRing(config.frac_bits, config.parties)
        with Foreseen() as mode:
            model = [(_words(m, n), _words(m)) for m, n in network.parameter_shapes]
            host = ForeseenHost(ring, (features, config.outputs))
            step = step_of(host, config, records)
            public = rule_of(config, step_plan).public(1)
            step(model * State.models(config), 1, *public)
    finally:
        crypten.uninit()
    bytes_ = carried(mode, config.parties)
    return StepForecast(mode.rounds, bytes_, process_memory(mode.peak))


def carried(mode: Foreseen, parties: int) -> int:
    """Returns the bytes that each of so many parties sends and receives on the average.

    Of an opening of many words a party sends 2 (n - 1) / n times as many, of few n - 1 times
    (`crypten_ext.transport.group`).
    """
    sent = sum(
        (parties - 1) * words * (1 if words * WORD <= DIRECT_BYTES else 2 / parties)
        for words in mode.openings
    )
    return round(2 * WORD * sent) + mode.rows
