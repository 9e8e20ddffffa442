"""A test of how long a gradient is on its way back, where nothing else bounds it.

Each layer multiplies the bound of the gradient behind it by that of its weight. Behind several
layers the product says nothing any more, and squared norms of that size would leave the ring. So
the gradient at a layer's input is looked at with few bits: a record in which it is longer than a
public limit counts for nothing in this step, as one does whose gradient is far above the bound C.
"""

import math
from dataclasses import dataclass

from extensions.errors import ArgumentError
from extensions.ring.fixed_point import SAFE_BITS


@dataclass(frozen=True, kw_only=True)
class Guard:
    """One test, which gradients longer than `limit` do not pass.

    Their norm is at most `reach` if all guards behind it were passed.
    """

    features: int
    reach: float
    limit: float

    def shift(self, frac_bits: int) -> int:
        """Returns how many fractional bits are dropped before it is squared.

        Rounded values are within one unit of their true ones in each of n coordinates: the sum of
        their squares is at most (reach + sqrt(n))^2 units, which must stay below 2^61.
        """
        room = 2.0 ** ((SAFE_BITS - 1) / 2) - math.sqrt(self.features)
        return max(0, math.ceil(frac_bits + math.log2(self.reach / room)))

    def threshold(self, frac_bits: int) -> int:
        """Returns t such that a sum of squares below t proves a norm of at most `limit`.

        |x| <= |rounded x| + sqrt(n) in units of the last bit that is kept.

        Raises:
            ArgumentError: too few bits are left to tell.
        """
        limit = math.ldexp(self.limit, frac_bits - self.shift(frac_bits))
        if limit < 4 * math.sqrt(self.features) or self.reach >= 2.0 ** (
            SAFE_BITS - 1 - 2 * frac_bits
        ):
            raise ArgumentError(
                "frac_bits",
                frac_bits,
                f"such that gradients of norm {self.limit:.3g} in hidden layers differ from those "
                f"of norm {self.reach:.3g}",
                "Lower the bound on weights, or frac_bits.",
                code="range",
            )
        return math.floor((limit - math.sqrt(self.features)) ** 2)
