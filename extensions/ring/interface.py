"""What a host must offer: the papers' building blocks over additive shares modulo 2^64.

A protocol is written once against `Ring`. A *share* is whatever the host holds for one party, or
for all of them where one program computes for all: a NumPy array in the clear ring, a torch tensor
of int64 in CrypTen, tensors on the three servers' devices in ABY3. Shares support, locally and
without communication, `+`, `-` and unary `-` between shares, `*` by a Python int, indexing,
`reshape`, `sum(axis)` and `.T`, all modulo 2^64. *Bits* are 64-bit words shared by XOR; they
support `^` between words and `&`, `<<` and (arithmetic) `>>` by a Python int.

Each method below that communicates is one batched host operation for all that it is given:
callers pass everything that can go together at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from extensions.ring.fixed_point import Integers

Share = Any
Bits = Any


Weights = Sequence[Sequence[int]]
"""Public integers by row, one for each threshold."""


class Selected(NamedTuple):
    """What `Ring.select` makes of x and its flags [x < t].

    Attributes:
        value: shares of x / 2^shift, rounded as `Ring.truncate` does.
        slopes: shares of the weighted sums of the flags.
        products: shares of each slope times the value, not truncated.
        constants: shares of further weighted sums.
    """

    value: Share
    slopes: list[Share]
    products: list[Share]
    constants: list[Share]


@dataclass
class Rows:
    """Vectors, one a row, that a later factor scales.

    Attributes:
        values: shares of each matrix, (rows, columns).
        shift: fractional bits that the factor loses first.
        opened: what a host keeps for that.
    """

    values: list[Share]
    shift: int
    opened: Any = None


class NoiseSource(Protocol):
    """Draws that must be secret: the noise of Protocol 2 and the Poisson sampling."""

    def gaussian(self, party: int, scale: float, shape: tuple[int, ...]) -> Integers:
        """Returns integers of the discrete Gaussian with parameter `scale`, for one party."""

    def bernoulli(self, party: int, probability: float, size: int) -> npt.NDArray[np.bool_]:
        """Returns independent coin flips, for one party."""


class Ring(Protocol):
    """Arithmetic of one host over Z_2^64, with its conversions to bits and back."""

    @property
    def frac_bits(self) -> int:
        """Fractional bits f of the values that users see."""

    @property
    def parties(self) -> int:
        """Number of parties that hold a share."""

    def add_public(self, x: Share, value: Integers | int) -> Share:
        """Returns shares of x + value for public ring integers; local."""

    def linear(self, x: Share, rows: Sequence[Sequence[int]]) -> list[Share]:
        """Returns, for each row, shares of sum_i row[i] * x[i] over the leading axis; local."""

    def stack(self, shares: Sequence[Share]) -> Share:
        """Returns equal-shaped shares along a new leading axis; local."""

    def gather(self, x: Share, places: Integers) -> Share:
        """Returns x[:, places], (rows, *places.shape), where a place of -1 has 0; local.

        Args:
            places: public, of any shape, each in -1..columns - 1.
        """

    def mul(self, pairs: Sequence[tuple[Share, Share]]) -> list[Share]:
        """Returns the element-wise (broadcast) products, not truncated; one round for all."""

    def mul_flags(self, pairs: Sequence[tuple[Share, Share]]) -> list[Share]:
        """Returns the same for pairs of one shape, the second of which are 0 or 1 everywhere."""

    def matmul(self, pairs: Sequence[tuple[Share, Share]]) -> list[Share]:
        """Returns the matrix products, not truncated; one round for all.

        Operands are matrices, or equally many of them along a leading axis. Either may be what
        `factor` or `unfold` returned, of `mul` too.
        """

    def factor(self, x: Share) -> Share:
        """Returns x as `matmul` takes it for two products: x w first, and then d x.

        A host that opens factors under masks opens this one once.
        """

    def unfold(self, x: Share, places: Integers) -> Share:
        """Returns x[:, places] as rows, (rows * positions, values), as `factor` returns a factor.

        A place of -1 has 0, as with `gather`; local, but where a host shares x in another form
        first, rather than each copy of its values: then it is a round.

        Args:
            x: shares of (rows, columns), or a factor of them.
            places: public, (positions, values).
        """

    def truncate(self, items: Sequence[tuple[Share, int]]) -> list[Share]:
        """Returns z / 2^m rounded to one of the two nearest integers, for each (z, m).

        A host whose programs outlive settings takes an `extensions.ring.words.Exponent` as well.
        Exact where 2^m divides z; never wrong by an ulp or more while |z| < 2^62.
        """

    def select(
        self,
        x: Share,
        thresholds: Sequence[int],
        slopes: Weights,
        constants: Weights,
        shift: int = 0,
    ) -> Selected:
        """Returns sums of the flags [x < t], and their products with x / 2^shift.

        Args:
            x: shares, of any shape; as `Ring.less_than` and, where there is a shift,
                `Ring.truncate` ask for it.
            thresholds: public ring integers t.
            slopes: weights of the sums that are multiplied.
            constants: weights of those that are not.
            shift: in 0..62.

        Cost:
            The rounds of one comparison, a product, and a truncation where there is a shift.
        """

    def truncate_and_multiply(
        self, items: Sequence[tuple[Share, int]], pairs: Sequence[tuple[int, int]]
    ) -> tuple[list[Share], list[Share]]:
        """Returns the truncated items, and the products of those that the pairs name, untruncated.

        Args:
            items: as `Ring.truncate` takes them; a shift of 0 leaves one as it is.
            pairs: places of two items of one shape.

        Cost:
            A truncation and a product: two rounds.
        """

    def square_rows(
        self, rows: Sequence[Share], shift: int, beside: Sequence[Share] = ()
    ) -> tuple[Rows, list[Share]]:
        """Returns the rows as `scale_rows` takes them, and squared norms, (rows,), untruncated.

        Args:
            shift: fractional bits that the factor loses before it scales them.
            beside: further matrices, whose rows are squared but not scaled.

        Cost:
            One round.
        """

    def scale_rows(self, rows: Rows, factor: Share) -> list[Share]:
        """Returns each matrix, each row times its own factor / 2^shift, untruncated.

        Args:
            rows: of `square_rows`; for this one factor.

        Cost:
            A truncation and a product: two rounds.
        """

    def bit_decompose(self, x: Share) -> Bits:
        """Returns the 64 two's-complement bits of x."""

    def less_than(self, x: Share, thresholds: Sequence[int]) -> Share:
        """Returns [x < t] as integers 0 or 1, with one leading axis for the thresholds.

        Exact while |x - t| < 2^63 for every public ring integer t.
        """

    def less_than_bits(self, x: Share, threshold: int) -> Bits:
        """Returns words whose bit 0 is [x < t], exact as `less_than` is."""

    def suffix_or(self, bits: Bits) -> Bits:
        """Returns words whose bit i is the OR of bits i..63 of each word."""

    def bits_to_arithmetic(self, bits: Bits, positions: Sequence[int]) -> Share:
        """Returns shares of the bits at `positions`, as integers 0 or 1, on a leading axis."""

    def add_noise(
        self, x: Sequence[Share], scale: Sequence[float], source: NoiseSource
    ) -> list[Share]:
        """Returns each x plus the sum of one integer draw per party at that standard deviation.

        Every party draws its own summand from its own generator; no communication.
        """


@runtime_checkable
class NoiseDealing(Protocol):
    """A ring whose correlated randomness comes from one who can deal noise that no party knows."""

    def add_dealt_noise(self, x: Sequence[Share], scale: float, source: NoiseSource) -> list[Share]:
        """Returns each x plus an integer draw, of which only shares are dealt.

        Args:
            scale: its standard deviation, in ring units.
            source: of plaintext, where nobody deals; a dealer draws from its own generator.

        Cost:
            No round; 8 bytes a value, dealt to one of the parties.
        """
