"""The plaintext ring: the same integers, the same truncation, nobody to hide from.

It is the oracle of the conformance suite and the engine of plaintext training runs. Its rounding
mode can be chosen, so that an error bound can be tested against the worst that a host may do.
"""

from collections.abc import Sequence
from typing import Literal, Protocol

import numpy as np

from extensions.ring.composed import Composed
from extensions.ring.fixed_point import RING_BITS, Integers, check_frac_bits, wrap
from extensions.ring.integer_matmul import matmul
from extensions.ring.interface import NoiseSource
from extensions.rules import Whole, one_of

Rounding = Literal["probabilistic", "floor", "ceiling", "extreme"]


class Coins(Protocol):
    """What draws the coins of rounding, as NumPy's generators do."""

    def integers(self, low: int, high: int, size: Sequence[int]) -> Integers:
        """Returns numbers from `low` to `high` - 1."""


class ClearRing(Composed):
    """Computes protocols on plain integers modulo 2^64, to try them without parties.

    Args:
        parties: how many parties the noise is to be summed over.
        rounding: how `truncate` rounds a fraction. "probabilistic" rounds up with the fraction's
            probability, as the frameworks do; "floor" and "ceiling" always round one way; "extreme"
            tosses a coin, which reaches combinations of errors that are too rare to test otherwise.
        seed: of the rounding coins, or their source. To round as a framework did, give its coins in
            order: where it opened c to truncate by m bits, the coin is c mod 2^m
            (`MaskedOpening.shift_opened`).

    Examples:
        >>> from extensions.ring.clear import ClearRing
        >>> from extensions.ring.fixed_point import decode, encode
        >>> ring = ClearRing(frac_bits=20, seed=1)
        >>> a, b = encode([1.5, -2.0], 20), encode([2.0, 0.25], 20)
        >>> (product,) = ring.mul([(a, b)])
        >>> (rounded,) = ring.truncate([(product, 20)])
        >>> decode(rounded, 20)
        array([ 3. , -0.5])
    """

    def __init__(
        self,
        frac_bits: int,
        *,
        parties: int = 3,
        rounding: Rounding = "probabilistic",
        seed: int | Coins | None = None,
    ) -> None:
        self.frac_bits = check_frac_bits(frac_bits)
        Whole(1).check("parties", parties)
        one_of(Rounding).check("rounding", rounding)
        self.parties = parties
        self.rounding = rounding
        self._coins: Coins = (
            np.random.default_rng(seed) if seed is None or isinstance(seed, int) else seed
        )

    def add_public(self, x: Integers, value: Integers | int) -> Integers:
        return x + (wrap(value) if isinstance(value, int) else value)

    def linear(self, x: Integers, rows: Sequence[Sequence[int]]) -> list[Integers]:
        matrix = np.array([[wrap(entry) for entry in row] for row in rows], dtype=np.int64)
        return list(np.tensordot(matrix, x, axes=1))

    def stack(self, shares: Sequence[Integers]) -> Integers:
        return np.stack(shares)

    def gather(self, x: Integers, places: Integers) -> Integers:
        return np.pad(x, ((0, 0), (0, 1)))[:, places]

    def mul(self, pairs: Sequence[tuple[Integers, Integers]]) -> list[Integers]:
        return [np.multiply(x, y) for x, y in pairs]

    def matmul(self, pairs: Sequence[tuple[Integers, Integers]]) -> list[Integers]:
        return [matmul(x, y) for x, y in pairs]

    def factor(self, x: Integers) -> Integers:
        return x

    def truncate(self, items: Sequence[tuple[Integers, int]]) -> list[Integers]:
        return [self._round(z, shift) for z, shift in items]

    def _round(self, z: Integers, shift: int) -> Integers:
        Whole(0, RING_BITS - 2).check("shift", shift)
        fraction = z & ((1 << shift) - 1)
        match self.rounding:
            case "floor":
                up = np.zeros_like(z, dtype=np.bool_)
            case "ceiling":
                up = fraction > 0
            case "extreme":
                up = (fraction > 0) & (self._coins.integers(0, 2, z.shape) > 0)
            case _:
                up = self._coins.integers(0, 1 << shift, z.shape) < fraction
        return (z >> shift) + up

    def bit_decompose(self, x: Integers) -> Integers:
        return x

    def less_than(self, x: Integers, thresholds: Sequence[int]) -> Integers:
        return np.stack([self.less_than_bits(x, threshold) for threshold in thresholds])

    def less_than_bits(self, x: Integers, threshold: int) -> Integers:
        return (x < threshold).astype(np.int64)

    def suffix_or(self, bits: Integers) -> Integers:
        word = bits.view(np.uint64).copy()
        for distance in (1, 2, 4, 8, 16, 32):
            word |= word >> np.uint64(distance)
        return word.view(np.int64)

    def bits_to_arithmetic(self, bits: Integers, positions: Sequence[int]) -> Integers:
        return np.stack([(bits >> position) & 1 for position in positions])

    def add_noise(
        self, x: Sequence[Integers], scale: Sequence[float], source: NoiseSource
    ) -> list[Integers]:
        draws = [
            [source.gaussian(party, s, value.shape) for value, s in zip(x, scale, strict=True)]
            for party in range(self.parties)
        ]
        return [
            value + sum(column) for value, column in zip(x, zip(*draws, strict=True), strict=True)
        ]

    def add_dealt_noise(
        self, x: Sequence[Integers], scale: float, source: NoiseSource
    ) -> list[Integers]:
        return [value + source.gaussian(self.parties, scale, value.shape) for value in x]
