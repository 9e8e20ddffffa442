"""The number of correct predictions, which is opened, and what that costs the records counted."""

from collections.abc import Callable
from dataclasses import dataclass

import tensorflow as tf

from extensions.network.evaluation import count_misses
from extensions.privacy.accounting import Ledger
from extensions.privacy.randomness import InsecureSeededSource
from extensions.protocols.announcement import blocks_for
from extensions.protocols.host import Batch
from extensions.protocols.noise import add_gaussian_noise
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

COUNT = "count of correct predictions"


@dataclass(frozen=True, kw_only=True)
class Noise:
    """What is added to a count.

    Attributes:
        deviation: of the noise, in records; None opens the count exactly.
        source: of the noise.

    Raises:
        ArgumentError: the deviation is not positive.
    """

    deviation: float | None
    source: NoiseSource

    def __post_init__(self) -> None:
        if self.deviation is not None:
            POSITIVE.check("count_noise", self.deviation)

    @property
    def multiplier(self) -> float:
        """Over what one record changes; zero if anybody may know the noise."""
        if self.deviation is None or isinstance(self.source, InsecureSeededSource):
            return 0.0
        return self.deviation


@dataclass(frozen=True, kw_only=True)
class Count:
    """How many records a model gets right; the number is opened whenever it is asked for.

    Attributes:
        program: opens the number of those it gets wrong (`misses`).
        records: number of those counted.
        frac_bits: of the protocol.
        noise: that the number gets.
        ledgers: that each number is charged to; without noise it costs infinity.

    Guarantees:
        One record changes the number by 1 at most, whatever the model, and any one server, which
        knows its own summand, still faces noise of the deviation
        (`extensions.protocols.noise.add_gaussian_noise`): each opening is a Gaussian mechanism of
        that multiplier.
    """

    program: Program | Total
    records: int
    frac_bits: int
    noise: Noise
    ledgers: tuple[Ledger, ...]

    def accuracy(self, announce: Callable[[], None]) -> float:
        """Returns the part of the records that the model gets right, in [0, 1]; charges it before.

        Args:
            announce: called once it is charged, and before it is opened.

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
        multiplier = self.noise.multiplier
        for ledger in self.ledgers:
            ledger.record(
                COUNT,
                noise_multiplier=multiplier,
                sample_rate=1.0,
                steps=times,
                overflow_probability=noise_failure(1, times) if multiplier else 0.0,
            )


def misses(ring: ABY3Ring, chain: Chain, records: Records, noise: Noise) -> Program | Total:
    """Returns what opens the number of records that the model gets wrong, on the ring's grid.

    Records of owners are counted in blocks that memory holds, those that are shared all at once.
    """

    def wrong(batch: Batch) -> Share:
        found: Share = count_misses(ring, logits_of(ring, chain, batch.x), batch.y, ties="right")
        return found.reshape(1) * (1 << ring.frac_bits)

    def finish(count: Share) -> tf.Tensor:
        if noise.deviation is None:
            return opened(count)
        (noisy,) = add_gaussian_noise(
            ring, [count], noise.deviation, frac_bits=ring.frac_bits, source=noise.source
        )
        return opened(noisy)

    sizes, network = records.sizes, chain.network
    blocks = blocks_for(sizes, network.widths[0], network.comparisons)
    return total_of(ring.servers.devices, records, blocks, 1, wrong, finish)
