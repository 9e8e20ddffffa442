"""The shares and records of all parties in one program."""

from collections.abc import Sequence

import numpy as np

from extensions.layers.passes import Parameters
from extensions.protocols.host import Carried, Compute, Host, Placed, Traffic, flat, pairs
from extensions.ring.fixed_point import Integers
from extensions.ring.interface import NoiseSource, Share

from .ring import ToyRing
from .shares import Shares


class ToyHost(Host):
    """All parties of a run.

    Args:
        frac_bits: fractional bits.
        parties: number of parties.
        source: of sampling and noise.
    """

    ring: ToyRing

    def __init__(self, frac_bits: int, parties: int, source: NoiseSource) -> None:
        self.ring = ToyRing(frac_bits, parties)
        self.noise = source
        self.ranks = self.holders = range(parties)

    def share_rows(self, rows: Sequence[int], own: Placed) -> list[Share]:
        return [self.ring.share(np.concatenate(column)) for column in zip(*own, strict=True)]

    def summands(self, model: Parameters, compute: Compute = flat) -> list[list[Integers]]:
        shares = compute(model)
        return [[part.parts[rank] for part in shares] for rank in self.holders]

    def restore(self, summands: Sequence[Sequence[Integers]]) -> Parameters:
        return pairs([Shares(np.stack(column)) for column in zip(*summands, strict=True)])

    def traffic(self) -> Traffic:
        each = Carried(sent=8 * self.ring.words, received=8 * self.ring.words)
        return Traffic(self.ring.rounds, [each] * self.ring.parties)
