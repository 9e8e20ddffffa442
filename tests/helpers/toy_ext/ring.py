"""Arithmetic on shares, and a dealer in the same process; all else is inherited."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from extensions.ring.fixed_point import Integers, check_frac_bits, wrap
from extensions.ring.integer_matmul import matmul
from extensions.ring.interface import NoiseSource
from extensions.ring.masked_opening import MaskedOpening
from extensions.ring.tuples import Correlation, Dealt, Sharing
from extensions.ring.words import Word

from .shares import Shares

JOINED: dict[Sharing, tuple[np.ufunc, np.ufunc]] = {
    "sum": (np.add, np.subtract),
    "xor": (np.bitwise_xor, np.bitwise_xor),
}
"""What joins the shares of a word, and its inverse."""
ARRAYS = SimpleNamespace(stack=np.stack, constant=np.asarray)


class ToyRing(MaskedOpening):
    """`extensions.ring.interface.Ring` over any number of parties.

    Args:
        frac_bits: fractional bits.
        parties: number of parties.
    """

    def __init__(self, frac_bits: int, parties: int) -> None:
        self.frac_bits = check_frac_bits(frac_bits)
        self.parties = parties
        self.rounds = self.words = 0
        self._draws = np.random.default_rng()

    def share(self, values: Integers, by: Sharing = "sum") -> Shares:
        """Returns fresh shares: uniform for all parties but the last, which gets the rest."""
        values = np.asarray(values, dtype=np.int64)
        join, take = JOINED[by]
        others = self.uniform((self.parties - 1, *values.shape))
        return Shares(np.concatenate([others, take(values, join.reduce(others, 0))[None]]))

    def add_public(self, x: Shares, value: Word | Integers | int) -> Shares:
        return x + self._leading(value)

    def xor_public(self, word: Shares, value: Word | int) -> Shares:
        return word ^ self._leading(value)

    def constant(self, integers: Integers) -> Integers:
        return np.asarray(integers, dtype=np.int64)

    def _leading(self, value: Word | Integers | int) -> Shares:
        """A public value as the first party's share, zero for all others."""
        public = np.asarray(wrap(value) if isinstance(value, int) else value, dtype=np.int64)
        return Shares(np.stack([public, *[np.zeros_like(public)] * (self.parties - 1)]))

    def open_sum(self, shares: Sequence[Shares]) -> list[Integers]:
        return self._open(shares, "sum")

    def open_xor(self, words: Sequence[Shares]) -> list[Integers]:
        return self._open(words, "xor")

    def _open(self, shares: Sequence[Shares], by: Sharing) -> list[Integers]:
        self.rounds += 1
        self.words += sum(share.parts[0].size for share in shares)
        return [np.asarray(JOINED[by][0].reduce(share.parts, 0)) for share in shares]

    def deal(self, wanted: Sequence[tuple[Correlation, Shares]]) -> list[Dealt]:
        dealt = []
        for kind, hidden in wanted:
            masks = self.uniform((kind.masks, *hidden.shape))
            dependents = self.share(kind.follow(masks, ARRAYS), kind.dependents_by)
            dealt.append(Dealt(self.share(masks, kind.masks_by), dependents))
        return dealt

    def uniform(self, shape: tuple[int, ...]) -> Integers:
        """Returns uniform words."""
        return self._draws.integers(0, 2**64, shape, dtype=np.uint64).view(np.int64)

    def linear(self, x: Shares, rows: Sequence[Sequence[int]]) -> list[Shares]:
        matrix = np.array([[wrap(entry) for entry in row] for row in rows], dtype=np.int64)
        return [Shares(parts) for parts in np.tensordot(matrix, x.parts, axes=(1, 1))]

    def stack(self, shares: Sequence[Shares]) -> Shares:
        return Shares(np.stack([share.parts for share in shares], 1))

    def gather(self, x: Shares, places: Integers) -> Shares:
        return Shares(np.pad(x.parts, ((0, 0), (0, 0), (0, 1)))[:, :, places])

    def concatenate(self, words: Sequence[Any]) -> Any:
        if isinstance(words[0], Shares):
            return Shares(np.concatenate([word.parts for word in words], 1))
        return np.concatenate(words)

    def mul(self, pairs: Sequence[tuple[Shares, Shares]]) -> list[Shares]:
        return self._beaver(pairs, np.multiply, lambda x, y: x * y)

    def matmul(self, pairs: Sequence[tuple[Shares, Shares]]) -> list[Shares]:
        def by_party(x: Any, y: Any) -> Shares:
            if isinstance(x, Shares):
                return Shares(np.stack([matmul(part, y) for part in x.parts]))
            return Shares(np.stack([matmul(x, part) for part in y.parts]))

        return self._beaver(pairs, matmul, by_party)

    def _beaver(
        self,
        pairs: Sequence[tuple[Shares, Shares]],
        clear: Callable[[Integers, Integers], Integers],
        shared: Callable[[Any, Any], Shares],
    ) -> list[Shares]:
        """X y = c + d b + a e + d e for dealt c = a b, and opened d = x - a and e = y - b."""
        masks = [(self.uniform(x.shape), self.uniform(y.shape)) for x, y in pairs]
        dealt = [[self.share(each) for each in (a, b, clear(a, b))] for a, b in masks]
        both = zip(pairs, dealt, strict=True)
        hidden = [masked for (x, y), (a, b, _) in both for masked in (x - a, y - b)]
        opened = self.open_sum(hidden)
        return [
            self.add_public(c + shared(d, b) + shared(a, e), clear(d, e))
            for (a, b, c), d, e in zip(dealt, opened[::2], opened[1::2], strict=True)
        ]

    def add_noise(
        self, x: Sequence[Shares], scale: Sequence[float], source: NoiseSource
    ) -> list[Shares]:
        draws = [
            [source.gaussian(party, s, value.shape) for value, s in zip(x, scale, strict=True)]
            for party in range(self.parties)
        ]
        noise = [Shares(np.stack(column)) for column in zip(*draws, strict=True)]
        return [value + own for value, own in zip(x, noise, strict=True)]
