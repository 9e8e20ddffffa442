"""The number of correct predictions, which is opened, and what that costs the records counted."""

from collections.abc import Callable
from dataclasses import dataclass

import tensorflow as tf

from extensions.privacy.accounting import Ledger
from extensions.protocols.host import Batch
from extensions.protocols.noise import add_gaussian_noise
from extensions.protocols.records import blocks_for
from extensions.protocols.sums.counts import charge_counts, count_wrong
from extensions.ring.fixed_point import decode
from extensions.ring.interface import NoiseSource
from extensions.rules import POSITIVE
from tfe_ext.graphs.batches import Records
from tfe_ext.graphs.programs import Program
from tfe_ext.graphs.totals import Total, total_of
from tfe_ext.keras.layers import Chain
from tfe_ext.keras.steps.step import logits_of, opened
from tfe_ext.ring.aby3_ring import ABY3Ring, noise_failure
from tfe_ext.ring.shares import Share


@dataclass(frozen=True, kw_only=True)
class Count:
    """How many records a model gets right; the number is opened whenever it is asked for.

    Attributes:
        program: opens the number of those it gets wrong (`misses`).
        records: number of those counted.
        frac_bits: of the protocol.
        noise: deviation of the noise that the number gets, in records; None opens it exactly.
        source: of the noise.
        ledgers: that each number is charged to; without noise it costs infinity.

    Guarantees:
        Any one server, which knows its own summand, still faces noise of the deviation
        (`extensions.protocols.noise.add_gaussian_noise`).
    """

    program: Program | Total
    records: int
    frac_bits: int
    noise: float | None
    source: NoiseSource
    ledgers: tuple[Ledger, ...]

    def __post_init__(self) -> None:
        if self.noise is not None:
            POSITIVE.check("count_noise", self.noise)

    def accuracy(self, announce: Callable[[], None]) -> float:
        """Returns the part of the records that the model gets right, in [0, 1].

        It is charged, then announced, and then opened.

        Cost:
            The rounds of a forward pass, a product, a comparison and
            `extensions.network.evaluation.any_of`.
        """
        self.charge()
        announce()
        (wrong,) = decode(self.program().numpy(), self.frac_bits)
        return min(1.0, max(0.0, 1.0 - float(wrong) / self.records))

    def charge(self, times: int = 1) -> None:
        """Records so many openings, whether they are made or not."""
        failure = noise_failure(1, times) if self.noise is not None else 0.0
        for ledger in self.ledgers:
            charge_counts(ledger, self.noise, self.source, times, failure)


def misses(
    ring: ABY3Ring, chain: Chain, records: Records, noise: float | None, source: NoiseSource
) -> Program | Total:
    """Returns what opens the number of records that the model gets wrong, on the ring's grid.

    Owners' records are counted in blocks that memory holds, shared ones all at once.
    """

    def wrong(batch: Batch) -> Share:
        found: Share = count_wrong(ring, logits_of(ring, chain, batch.x), batch.y)
        return found

    def finish(count: Share) -> tf.Tensor:
        if noise is None:
            return opened(count)
        bits = ring.frac_bits
        return opened(*add_gaussian_noise(ring, [count], noise, frac_bits=bits, source=source))

    sizes, network = records.sizes, chain.network
    blocks = blocks_for(sizes, network.widths[0], network.comparisons)
    return total_of(ring.servers.devices, records, blocks, 1, wrong, finish)
