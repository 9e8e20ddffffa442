"""The integers that a model under encryption is made of, and the mean of a sum of updates."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from extensions.errors import ArgumentError
from extensions.rules import Between
from fl.paillier.packing import Packing, Signed
from fl.round.quantization import FixedPoint

Model = npt.NDArray[np.float32]

MEAN_BITS = 24
"""Bits behind the binary point of 1 / (total weight)."""
_WIDEST = 63
"""Bits of a range before the binary point that no slot has room for."""
_FEWEST = 64
"""Least factor of a sum: 1 / (total weight) is then right to 1 in 128."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How far a model has moved from where it began, as integers in slots of one packing.

    A mean is the sum of encoded updates times round(2^MEAN_BITS / total weight): ciphertexts can
    only be multiplied by integers. So it is that of `FixedPoint` times 1 + e, |e| <= weight /
    2^(MEAN_BITS + 1), the same e for all values, in units of 2^-(frac_bits + MEAN_BITS).

    Attributes:
        fixed_point: of updates.
        range: how far a parameter may move from its first value, in all rounds.
        key_bits: of n.
        packed: whether a plaintext has as many values as there is room for.

    Raises:
        ArgumentError: a range that is not positive, or integers beyond 63 bits or n.
    """

    fixed_point: FixedPoint
    range: float
    key_bits: int
    packed: bool = True

    def __post_init__(self) -> None:
        words = f"positive and below 2^{_WIDEST}"
        allowed = Between(0.0, 2.0**_WIDEST, above=True, below=True, words=words)
        allowed.check("model_range", self.range)
        room = min(63, self.key_bits - 1)
        if (bits := self.limit.bit_length() + 1) > room:
            rule = f"such that {bits} bits of a value are at most {room}"
            hint = "Lower {frac_bits} of the fixed point, its range, or {model_range}."
            raise ArgumentError("model_range", self.range, rule, hint, code="range")

    @property
    def bits(self) -> int:
        """Bits behind the binary point of a mean, and of a model."""
        return self.fixed_point.frac_bits + MEAN_BITS

    @property
    def farthest(self) -> int:
        """The range in units."""
        return math.ceil(math.ldexp(self.range, self.bits))

    @property
    def limit(self) -> int:
        """What a slot has room for: the range and one mean more, which clients then refuse."""
        return self.farthest + math.ceil(math.ldexp(self.fixed_point.clip, self.bits + 1))

    @property
    def packing(self) -> Packing:
        """How values share plaintexts."""
        slots = (self.key_bits - 1) // (self.limit.bit_length() + 1)
        return Packing(self.limit, slots if self.packed else 1)

    def factor(self, weight: int) -> int:
        """Returns what a sum of this total weight is multiplied by; some are too large."""
        factor = int(((2 << MEAN_BITS) + weight) // (2 * weight))
        if factor < _FEWEST:
            most = 2**MEAN_BITS // _FEWEST
            rule, hint = f"at most {most} with {{hide_model}}", "Take {weighting=equal}."
            raise ArgumentError("total weight", weight, rule, hint, code="range")
        return factor

    def model(self, first: Model, moved: Signed) -> Model:
        """Returns the model that began as `first` and has moved by so many units, (size,)."""
        model: Model = (first + np.ldexp(moved.astype(np.float64), -self.bits)).astype(np.float32)
        return model
