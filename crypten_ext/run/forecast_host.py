"""A party whose shares mean nothing, to say what its steps will take; nobody else takes part."""

from collections.abc import Iterator, Sequence

import torch

from crypten_ext.registry import enable
from crypten_ext.ring.crypten_ring import CrypTenRing
from crypten_ext.ring.factors import Factor
from crypten_ext.ring.forecast import WORD, Counts, ForecastMode, SmallForecastMode, process_memory
from crypten_ext.ring.standing import Standing
from crypten_ext.run.host import CrypTenHost
from crypten_ext.transport.group import DIRECT_WORDS
from extensions.privacy.randomness import SystemSource
from extensions.protocols.host import Batch, Blocks, Placed, StepForecast
from extensions.protocols.optimizer import State
from extensions.protocols.records import Records
from extensions.protocols.step import Step
from extensions.ring.interface import NoiseSource
from extensions.runs.config import TrainConfig
from extensions.runs.providers import DEALINGS

import crypten
from crypten import communicator


class ForecastRing(CrypTenRing):
    """The first of so many parties."""

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


class ForecastHost(CrypTenHost):
    """That party, whose batches have few rows; `widths` are those of features and labels."""

    def __init__(self, ring: ForecastRing, widths: tuple[int, int], rows: int) -> None:
        super().__init__(ring.frac_bits, SystemSource())
        self.ring = ring
        self._widths, self._rows = widths, rows

    def samples(
        self, records: Placed, rows: Sequence[int], rate: float, pieces: int
    ) -> Iterator[Batch]:
        """Yields pieces of a batch that means nothing, all of whose rows are this party's."""
        for _ in range(pieces):
            x, y = (_words(self._rows, width) for width in self._widths)
            features = Factor(x, self._own(rows, self._rows), _words(self._rows, self._widths[0]))
            yield Batch(features, y, _words(self._rows), _words(self._rows))

    def begin_step(self) -> None:
        """Does nothing: no step is made."""

    def standing(self, records: Placed, rows: Sequence[int], pieces: int) -> Sequence[Batch] | None:
        """Returns such a batch for all steps."""
        if self._outputs is None:
            return None
        x, y = (_words(self._rows, width) for width in self._widths)
        words, by_columns = _words(self._rows), isinstance(records, Blocks)
        own = (range(self.ring.parties), self._widths[0]) if by_columns else (rows, self._rows)
        sizes = self._own(*own)
        return [
            Batch(Standing(x.numpy(), sizes, by_columns=by_columns), y, words, words)
            for _ in range(pieces)
        ]

    def _own(self, of_all: Sequence[int], size: int) -> list[int]:
        own = [0] * len(of_all)
        own[communicator.get().get_rank()] = size
        return own


def _words(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.int64)


def plan(config: TrainConfig, step: Step, records: Records) -> StepForecast:
    """Returns what a step of a run takes of a party on the average, as `step_cost`."""
    crypten.init()
    enable()
    crypten.cfg.mpc.provider = DEALINGS[config.provider].host_name
    try:
        return step_cost(step, records)
    finally:
        crypten.uninit()


def step_cost(step: Step, records: Records) -> StepForecast:
    """Returns the same, in a party that has joined a computation or is alone; local.

    A step of all rows opens as much as follows from two of few rows: words are a multiple of the
    rows but for what depends only on the model, since `_UNIT` rows fill whole words of bits.
    """
    config = step.config
    rows = sum(records.rows(config)) // records.pieces(config)
    units = max(1, _AT_ONCE // (_UNIT * records.features))
    small = min(rows, rows % _UNIT + _UNIT * units)
    if not step.network.is_dense:
        small = rows
    first = _computed(step, records, small)
    last = first if rows == small else _computed(step, records, small + _UNIT)
    times = (rows - small) // _UNIT
    openings = [a + times * (b - a) for a, b in zip(first.openings, last.openings, strict=True)]
    own, peak = (
        getattr(first, name) + times * (getattr(last, name) - getattr(first, name))
        for name in ("rows", "peak")
    )
    once, each = round(2 * own / config.parties), carried(openings, config.parties)
    if config.sample_rate < 1.0:
        once, each = 0, each + once
    return StepForecast(
        rounds=len(openings),
        bytes=each,
        once=once,
        memory=process_memory(peak),
        trips=sum(2 if words > DIRECT_WORDS else 1 for words in openings),
    )


_UNIT = 64
"""Rows that fill words of 64 bits."""
_AT_ONCE = 1 << 15
"""About so many words of features are computed with."""


def _computed(step: Step, records: Records, rows: int) -> Counts:
    """A step on so many rows a piece; windows of images would take long even of few rows."""
    config, network = step.config, step.network
    with SmallForecastMode() if network.is_dense else ForecastMode() as mode:
        model = [(_words(m, n), _words(m)) for m, n in network.parameter_shapes]
        ring = ForecastRing(config.frac_bits, config.parties)
        host = ForecastHost(ring, (records.features, config.outputs), rows)
        host.prefetch(0, network.widths[1] if network.is_dense else None)
        step.sampled(host, records)(model * State.models(config), *step.public(1))
    return mode


def carried(openings: Sequence[int], parties: int) -> int:
    """Returns the bytes that each of so many parties sends and receives on average.

    Of an opening of many words a party sends 2 (n - 1) / n times as many, of few n - 1 times
    (`crypten_ext.transport.group`).
    """
    sent = sum(
        (parties - 1) * words * (1 if words <= DIRECT_WORDS else 2 / parties) for words in openings
    )
    return round(2 * WORD * sent)
