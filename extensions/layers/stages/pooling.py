"""Pooling: one value for each window of an image, channel by channel."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from extensions.layers.activations import OUTPUT_SLACK
from extensions.layers.stages.grid import OUTSIDE, Window, fold, folded
from extensions.layers.stages.stage import Bound, Stage
from extensions.ring.fixed_point import Integers
from extensions.ring.interface import Ring, Share


@dataclass(frozen=True)
class Pooling(Stage):
    """One value for the points of a window, channel by channel."""

    window: Window

    @property
    def inputs(self) -> int:  # type: ignore[override]
        return self.window.grid.size

    @property
    def outputs(self) -> int:  # type: ignore[override]
        return self.window.positions * self.window.grid.channels

    @property
    def values(self) -> int:
        return max(super().values, self.window.values)

    @property
    def _places(self) -> Integers:
        """Those of each output's points, (outputs, points)."""
        return self.window.places.reshape(self.outputs, self.window.points)


class AveragePool(Pooling):
    """The mean over each window, zeros of the padding included.

    Either way it takes one truncation of the outputs.
    """

    _BITS = 16

    @property
    def _factor(self) -> tuple[int, int]:
        """(m, t) with m / 2^t the rounded 1 / points; exact for a power of two."""
        points = self.window.points
        exact = points & (points - 1) == 0
        bits = points.bit_length() - 1 if exact else self._BITS
        return round((1 << bits) / points), bits

    def bound(self, before: Bound) -> Bound:
        """Returns sqrt(overlap / points) |a|, for |mean|^2 <= sum |a|^2 / points of each window."""
        largest = OUTPUT_SLACK * before.largest
        shrunk = math.sqrt(self.window.overlap / self.window.points)
        norm = OUTPUT_SLACK * shrunk * before.norm + math.ldexp(math.sqrt(self.outputs), -12)
        return Bound(min(norm, largest * math.sqrt(self.outputs)), largest)

    @property
    def stretch(self) -> float:
        """sqrt(overlap / points): of `overlap` summands the square is at most as often theirs."""
        return OUTPUT_SLACK * math.sqrt(self.window.overlap / self.window.points)

    def forward(self, ring: Ring, x: Share) -> tuple[Share, Any]:
        return self._scaled(ring, ring.gather(x, self._places).sum(-1)), None

    def backward(self, ring: Ring, deltas: Share, kept: Any) -> Share:
        """Returns to each point its part of the gradients; one truncation."""
        found = folded(self._places, self.inputs)
        windows = np.where(found == OUTSIDE, OUTSIDE, found // self.window.points)
        return ring.gather(self._scaled(ring, deltas), windows).sum(-1)

    def _scaled(self, ring: Ring, x: Share) -> Share:
        numerator, bits = self._factor
        if not bits:
            return x
        (scaled,) = ring.truncate([(x * numerator, bits)])
        return scaled


class MaxPool(Pooling):
    """The largest value of each window; nobody learns which it was.

    Two values are compared, then the larger ones, and so on. Padding never is the largest.

    Cost:
        Of the binary logarithm of the points the rounds of as many selections forward, and as many
        products backward; each value but one of a window is compared once.
    """

    @property
    def comparisons(self) -> int:
        """Those of the first selection, which has most."""
        return self.outputs * (self.window.points // 2)

    def bound(self, before: Bound) -> Bound:
        """Returns a bound by the windows in which each value may be the largest."""
        norm = self.stretch * before.norm
        return Bound(min(norm, before.largest * math.sqrt(self.outputs)), before.largest)

    @property
    def stretch(self) -> float:
        """sqrt(overlap): a value may have been the largest in as many windows."""
        return math.sqrt(self.window.overlap)

    @property
    def _candidates(self) -> Integers:
        """Places of each window's points, (outputs, points); another of the window for padding."""
        places = self._places
        return np.where(places == OUTSIDE, places.max(axis=1, keepdims=True), places)

    def forward(self, ring: Ring, x: Share) -> tuple[Share, Any]:
        values = [ring.gather(x, column) for column in self._candidates.T]
        flags: list[Share] = []
        while len(values) > 1:
            half = len(values) // 2
            first, second = (ring.stack(values[i * half : (i + 1) * half]) for i in (0, 1))
            found = ring.select(first - second, [0], [[1]], [])
            larger = first - found.products[0]
            flags.append(found.slopes[0])
            values = [*(larger[i] for i in range(half)), *values[2 * half :]]
        return values[0], flags

    def backward(self, ring: Ring, deltas: Share, kept: Any) -> Share:
        """Returns each gradient at the place that was the largest."""
        counts = [self.window.points]
        for _ in kept:
            counts.append(counts[-1] - counts[-1] // 2)
        parts = [deltas]
        for flags, count in zip(reversed(kept), reversed(counts[:-1]), strict=True):
            half = count // 2
            larger = ring.stack(parts[:half])
            (to_second,) = ring.mul([(flags, larger)])
            to_first = larger - to_second
            split = [[part[i] for i in range(half)] for part in (to_first, to_second)]
            parts = [*split[0], *split[1], *parts[half:]]
        total = None
        for part, column in zip(parts, self._candidates.T, strict=True):
            back = fold(ring, part, column, self.inputs)
            total = back if total is None else total + back
        return total
