"""What a protocol asks of a ring at once, made of what every ring has, one after the other.

A host that opens a value once for several of these ends overrides them, with fewer rounds.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from extensions.ring.fixed_point import Integers
from extensions.ring.interface import Rows, Selected, Share, Weights


class Composed(ABC):
    """Those methods of `Ring` that others of its methods make up; the base of every ring."""

    @abstractmethod
    def linear(self, x: Share, rows: Weights) -> list[Share]: ...

    @abstractmethod
    def less_than(self, x: Share, thresholds: Sequence[int]) -> Share: ...

    @abstractmethod
    def truncate(self, items: Sequence[tuple[Share, int]]) -> list[Share]: ...

    @abstractmethod
    def mul(self, pairs: Sequence[tuple[Share, Share]]) -> list[Share]: ...

    @abstractmethod
    def gather(self, x: Share, places: Integers) -> Share: ...

    def unfold(self, x: Share, places: Integers) -> Share:
        return self.gather(x, places).reshape(-1, places.shape[1])

    def mul_flags(self, pairs: Sequence[tuple[Share, Share]]) -> list[Share]:
        return self.mul(pairs)

    def select(
        self,
        x: Share,
        thresholds: Sequence[int],
        slopes: Weights,
        constants: Weights,
        shift: int = 0,
    ) -> Selected:
        sums = self.linear(self.less_than(x, thresholds), [*slopes, *constants])
        (value,) = self.truncate([(x, shift)]) if shift else (x,)
        factors = sums[: len(slopes)]
        products = self.mul([(factor, value) for factor in factors])
        return Selected(value, factors, products, sums[len(slopes) :])

    def truncate_and_multiply(
        self, items: Sequence[tuple[Share, int]], pairs: Sequence[tuple[int, int]]
    ) -> tuple[list[Share], list[Share]]:
        truncated = iter(self.truncate([(z, shift) for z, shift in items if shift]))
        values = [next(truncated) if shift else z for z, shift in items]
        return values, self.mul([(values[i], values[j]) for i, j in pairs])

    def square_rows(
        self, rows: Sequence[Share], shift: int, beside: Sequence[Share] = ()
    ) -> tuple[Rows, list[Share]]:
        squares = self.mul([(each, each) for each in (*rows, *beside)])
        return Rows(list(rows), shift), [square.sum(-1) for square in squares]

    def scale_rows(self, rows: Rows, factor: Share) -> list[Share]:
        (scale,) = self.truncate([(factor, rows.shift)]) if rows.shift else (factor,)
        column = scale.reshape(-1, 1)
        return self.mul([(column, each) for each in rows.values])
