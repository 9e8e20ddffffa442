"""Updates as fixed-point integers modulo 2^32 or 2^64, with a stated range and no silent overflow.

Client k sends w_k u_k, scaled by 2^frac_bits and rounded; the sum modulo 2^bits, read as a signed
integer and divided by 2^frac_bits sum(w_k), is the weighted mean.
"""

import math
import os
from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt

from extensions.checks import is_whole
from extensions.errors import ArgumentError, UpdateError
from extensions.rules import POSITIVE, Whole, check_fields
from fl.round.machines import Vector

RingVector = npt.NDArray[np.uint32] | npt.NDArray[np.uint64]
"""Elements of Z_2^32 or Z_2^64, which add up modulo 2^32 or 2^64."""

Saturation = Literal["error", "clip"]
Rounding = Literal["nearest", "stochastic"]


@dataclass(frozen=True, kw_only=True)
class FixedPoint:
    """Encodes updates as integers of a ring.

    Guarantees:
        Weighted sums of encoded updates stay in the ring if `check_weights` has passed. The mean
        of n updates whose weights sum to W is exact to n / (2 W) units of 2^-frac_bits, which is
        half a unit at most, and to double precision. With stochastic rounding the error is at most
        twice that, and 0 in expectation, so few fractional bits keep small updates. Many short
        values fit in one element (`MaskedAggregator(lanes=...)`). For example, 8 bits a value and
        10 clients take 12 bits, so an element of 64 bits holds 5.

    Attributes:
        bits: the ring is Z_2^bits.
        frac_bits: bits behind the binary point.
        clip: values lie in [-clip, clip].
        saturation: for a value beyond that, "error" rejects the update, "clip" takes the bound.
        rounding: "nearest" unit, or "stochastic": up with the probability of the remainder.

    Raises:
        ArgumentError: another size of ring, or a range that one client of weight 1 overflows.

    Examples:
        >>> fl.FixedPoint(bits=32, frac_bits=16)
        FixedPoint(bits=32, frac_bits=16, clip=16.0, saturation='error', rounding='nearest')
    """

    bits: int = 64
    frac_bits: int = 24
    clip: Annotated[float, POSITIVE] = 16.0
    saturation: Saturation = "error"
    rounding: Rounding = "nearest"

    def __post_init__(self) -> None:
        if not is_whole(self.bits, range(32, 65, 32)):
            raise ArgumentError("bits", self.bits, "32 or 64", code="choice")
        Whole(0, self.bits - 1).check("frac_bits", self.frac_bits)
        check_fields(self)
        for name, kind in (("bits", int), ("frac_bits", int), ("clip", float)):
            object.__setattr__(self, name, kind(getattr(self, name)))
        self.check_weights([1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the ring's elements."""
        return np.dtype(np.uint32 if self.bits == 32 else np.uint64)

    def check_weights(self, weights: Collection[int]) -> None:
        """Checks that no weighted sum of updates in range can overflow.

        Raises:
            ArgumentError: it could.
        """
        largest = math.fsum(self.clip * weight * 2.0**self.frac_bits for weight in weights)
        limit = 2 ** (self.bits - 1) - 1 - len(weights)
        if largest > limit:
            raise ArgumentError(
                "frac_bits",
                self.frac_bits,
                f"such that {len(weights)} clients of total weight {sum(weights)} in the range "
                f"+-{self.clip:g} stay within {self.bits} bits",
                "Lower {frac_bits}, the range or the number of clients, or take equal weights or "
                "64 bits.",
                code="range",
            )

    def check(self, update: Vector) -> None:
        """Checks that the update is in range, or is to be clipped.

        The error tells no number of values: it reaches the server.

        Raises:
            UpdateError: it is not.
        """
        if self.saturation == "error" and np.any(np.abs(update) > self.clip):
            raise UpdateError(
                f"values lie beyond +-{self.clip:g}: widen the fixed point's range (clip), or give "
                'saturation="clip"'
            )

    def encode(self, update: Vector, weight: int = 1) -> RingVector:
        """Returns round(2^frac_bits * weight * update), modulo 2^bits.

        Stochastic rounding draws from the operating system.

        Raises:
            UpdateError: a value is NaN, infinite, or beyond the range and not to be clipped.
        """
        if not np.all(np.isfinite(update)):
            raise UpdateError("the update holds NaN or infinite values")
        self.check(update)
        clipped = np.clip(update.astype(np.float64), -self.clip, self.clip)
        scaled = np.ldexp(clipped * weight, self.frac_bits)
        if self.rounding == "stochastic":
            drawn = np.frombuffer(os.urandom(4 * scaled.size), np.uint32)
            scaled = np.floor(scaled + np.ldexp(drawn.astype(np.float64), -32))
        scaled = np.rint(scaled)
        return scaled.astype(np.int64).astype(self.dtype)

    def decode(self, total: RingVector, weight: int = 1) -> Vector:
        """Returns the mean that belongs to a sum of encoded updates of this total weight."""
        if total.dtype != self.dtype:
            raise ArgumentError("total", total.dtype, f"of type {self.dtype}", code="type")
        signed = total.view(np.int32 if self.bits == 32 else np.int64)
        return np.ldexp(signed.astype(np.float64), -self.frac_bits) / weight
