"""CrypTen as a host: each party is a process, which has only its own records and shares."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from crypten_ext import dealer
from crypten_ext.masks.key_agreement import PairwiseMasks
from crypten_ext.processes.meter import Meter
from crypten_ext.processes.speed import measured_speed
from crypten_ext.ring.crypten_ring import CrypTenRing
from crypten_ext.ring.exchange import meanwhile, open_sum
from crypten_ext.ring.factors import Factor, share_rows
from crypten_ext.ring.standing import Standing
from crypten_ext.ring.tuples import source
from crypten_ext.world import SOFTWARE, exchange
from extensions.layers.passes import Parameters
from extensions.privacy.randomness import DrawnAhead, SystemSource
from extensions.protocols.agreement import Words
from extensions.protocols.host import (
    Arrays,
    Batch,
    Blocks,
    Compute,
    Host,
    Placed,
    Speed,
    StepForecast,
    Tell,
    Traffic,
    flat,
    pairs,
    part_of,
)
from extensions.ring.fixed_point import Integers
from extensions.ring.interface import NoiseSource
from extensions.runs.config.run_time import openly


class CrypTenHost(Host):
    """This party of the running CrypTen process group.

    `noise` is the source of its sampling and noise; `step_cost` returns what a step takes on a
    sample of these records, for `forecast`.
    """

    software = SOFTWARE

    def __init__(
        self,
        frac_bits: int,
        noise: NoiseSource,
        step_cost: Callable[[Any, Any], StepForecast] | None = None,
    ) -> None:
        ring = CrypTenRing(frac_bits)
        self.ring = ring
        self.noise = noise
        self.ranks = self.holders = (ring.rank,)
        self._masks: PairwiseMasks | None = None
        self._meter: Meter | None = None
        self._left = 0
        self._outputs: int | None = None
        self._next: Batch | None = None
        self._pace: Speed | None = None
        self._step_cost = step_cost

    def measure_speed(self) -> None:
        """Times the connections, by some rounds of zeros."""
        self._pace = measured_speed(self)

    def forecast(self, config: Any, records: Any, step: Any, tell: Tell) -> None:
        """Tells at once what a step will take.

        Raises ArgumentError for a provider whose tuples take rounds.
        """
        if self._pace is None or self._step_cost is None:
            return
        hidden = config.hidden
        each = self._step_cost(step, records) if hidden else openly(config, records.features)
        tell(each, self._pace)

    def begin(self, run: str) -> None:
        """The dealer, if there is one, deals only for this run; traffic counts from here.

        Over gloo this takes two rounds, which do not count.
        """
        dealer.begin_run(run)
        self._meter = Meter()

    def exchange(self, own: Sequence[Words]) -> list[list[int]]:
        """Returns every party's words by rank; one round."""
        return exchange(own)

    def share_rows(self, rows: Sequence[int], own: Placed) -> list[torch.Tensor]:
        """Returns this party's shares of all parties' rows; local."""
        (arrays,) = own
        return share_rows(rows, arrays)

    def prefetch(self, steps: int, outputs: int | None) -> None:
        """Notes how many steps follow; each draws its noise while it waits.

        Where rows are multiplied first, it draws the next one's sample as well. With fixed
        randomness it does neither, so that a run that goes on draws what it would have drawn.
        """
        self._next, self._outputs = None, outputs
        if isinstance(self.noise, SystemSource):
            self.noise = DrawnAhead(self.noise)
        self._left = steps if isinstance(self.noise, DrawnAhead) else 0

    def samples(
        self, records: Placed, rows: Sequence[int], rate: float, pieces: int
    ) -> Iterator[Batch]:
        """Yields a fresh sample of all parties' records; a step begins for the dealer.

        Of steps that were foreseen each has the rows of the next one's sample travel while it
        waits for its own rounds.
        """
        foreseen = self._left > 0
        travels = foreseen and pieces == 1 and self._outputs is not None
        batch = (self._next or self._ahead(records, rows, rate)) if travels else None
        self.begin_step()
        if batch is None:
            yield from super().samples(records, rows, rate, pieces)
            return
        if self._left:
            self._next = self._ahead(records, rows, rate)
        else:  # it asks the dealer for what others did, so that this was foreseen
            self._next = None
            batch.x.like().mask(self._outputs, source())
        yield batch

    def begin_step(self) -> None:
        """A step begins for the dealer; of those that were foreseen the next noise is drawn."""
        dealer.begin_step()
        if self._left and isinstance(self.noise, DrawnAhead):
            meanwhile(self.noise.draw)
            self._left -= 1

    def standing(self, records: Placed, rows: Sequence[int], pieces: int) -> Sequence[Batch] | None:
        """Returns all records, of which rows that are multiplied first are masked once, by owners.

        None where they are not multiplied first.
        """
        if isinstance(records, Blocks):
            return self._standing_columns(records, rows, pieces)
        if self._outputs is None:
            return None
        batches = []
        for sizes, (own,) in self.drawn(records, rows, 1.0, pieces):
            x = Standing(own.x, sizes)
            x.mask(self._outputs, source())
            shares = share_rows(sizes, [own.y, own.squared_norms, own.padding])
            batches.append(Batch(x, *shares))
        return batches

    def _standing_columns(self, records: Blocks, rows: Sequence[int], pieces: int) -> list[Batch]:
        """Returns all records, whose columns are masked once, each owner's by itself."""
        (columns,), norms, labels = records.beside(self)
        batches = []
        for i in range(pieces):
            part = part_of(rows[0], i, pieces)
            x = Standing(columns[0].T[part], records.sizes[0], by_columns=True)
            x.mask(self._outputs or 0, source())
            batches.append(Batch(x, labels[part], norms[part], None))
        return batches

    def _ahead(self, records: Placed, rows: Sequence[int], rate: float) -> Batch:
        """Returns a sample whose rows begin to travel."""
        (batch,) = super().samples(records, rows, rate, 1)
        batch.x.mask(self._outputs, source())
        batch.x.travel()
        return batch

    def batch_of(self, rows: Sequence[int], own: Sequence[Batch]) -> Batch:
        """Returns the batch, of whose features the owners themselves know the masks; local."""
        batch = super().batch_of(rows, own)
        (sample,) = own
        return replace(batch, x=Factor.of_owners(batch.x, rows, sample.x))

    def summands(self, model: Parameters, compute: Compute = flat) -> list[list[Integers]]:
        """Returns this party's shares."""
        return [[part.numpy() for part in compute(model)]]

    def restore(self, summands: Sequence[Sequence[Integers]]) -> Parameters:
        """Returns the share that `summands` returned."""
        return pairs(_tensors(summands))

    def masked(self, own: Sequence[Arrays]) -> list[list[Integers]]:
        """Returns this party's arrays under masks that cancel over all parties.

        It takes one round when it is called for the first time, else none.
        """
        self._masks = self._masks or PairwiseMasks()
        (arrays,) = own
        return [[array + self._masks.draw(array.shape).numpy() for array in arrays]]

    def open(self, summands: Sequence[Sequence[Integers]]) -> list[Integers]:
        """Returns to every party what all parties' shares add up to; one round."""
        return [opened.numpy() for opened in open_sum(_tensors(summands))]

    def traffic(self) -> Traffic:
        """Returns what this party sent and received, by the kernel's count, since `begin`."""
        return Traffic() if self._meter is None else self._meter.read()


def _tensors(summands: Sequence[Sequence[Integers]]) -> list[torch.Tensor]:
    (own,) = summands
    return [torch.from_numpy(np.array(part)) for part in own]
