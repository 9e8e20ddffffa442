"""What a product of a public shape takes: polynomials, limbs, noise and bytes."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product
from typing import Annotated

from extensions.errors import ArgumentError
from extensions.rules import Whole, check_fields
from extensions.two_party.lattice.flooding import USUAL, Flooding, largest
from extensions.two_party.lattice.scheme import ANSWERED, DEGREE, FRESH, PRIME_SIZES, sent_bits

_WORD = 64
_Count = Annotated[int, Whole(1)]
_FRESH_BITS, _ANSWER_BITS = sum(PRIME_SIZES[:FRESH]), sum(PRIME_SIZES[:ANSWERED])
_LARGEST_ERROR = (1 << (_ANSWER_BITS - _WORD - 1)) - 2
"""Of an answer that is decrypted: half of its modulus by 2^64, whose primes are just below 2^40."""
_DIVIDED_BITS = _FRESH_BITS - _ANSWER_BITS
_ROUNDED = DEGREE // 2 + 3
"""Error of the divisions of an answer: half of each of 8192 signs and itself, twice."""
HEAD_BYTES, SEED_BYTES = 32, 32
PUBLIC_KEY_BYTES = HEAD_BYTES + 2 * DEGREE * sum(map(sent_bits, PRIME_SIZES)) // 8
"""Of two polynomials."""


@dataclass(frozen=True)
class Convolution:
    """The public shape of W o x: a batch of images by kernels, without padding.

    Matrices are images of one pixel (`matrices`), vectors batches of one. Entries of W are in
    -2^(bits-1)..2^(bits-1) - 1, bits being `weight_bits`, 64 for shares.

    Raises ArgumentError for a size below 1, a kernel beyond its image, an image of more than 8192
    pixels, or weight_bits outside 2..64.
    """

    batch: _Count
    channels: _Count
    height: _Count
    width: _Count
    outputs: _Count
    kernel: tuple[int, int]
    stride: _Count = 1
    weight_bits: Annotated[int, Whole(2, _WORD)] = 32
    flooding: Flooding = USUAL

    def __post_init__(self) -> None:
        check_fields(self)
        if not (1 <= self.kernel[0] <= self.height and 1 <= self.kernel[1] <= self.width):
            allowed = f"within {self.height} x {self.width}"
            raise ArgumentError("kernel", self.kernel, allowed, code="range")
        if self.height * self.width > DEGREE:
            pixels = f"{self.height} x {self.width}"
            allowed = f"of at most {DEGREE} pixels"
            raise ArgumentError("image", pixels, allowed, "Cut it up.", code="range")

    @property
    def places(self) -> tuple[int, int]:
        """Height and width of an output."""
        rows = (self.height - self.kernel[0]) // self.stride + 1
        return rows, (self.width - self.kernel[1]) // self.stride + 1

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Of x: (batch, channels, height, width)."""
        return self.batch, self.channels, self.height, self.width

    @property
    def weight_shape(self) -> tuple[int, ...]:
        """Of W: (outputs, channels, *kernel)."""
        return self.outputs, self.channels, *self.kernel

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Of W o x: (batch, outputs, *places)."""
        return self.batch, self.outputs, *self.places

    @property
    def revealed(self) -> int:
        """Coefficients that the answer gives to whoever decrypts it."""
        return self.batch * self.outputs * self.places[0] * self.places[1]

    @cached_property
    def cut(self) -> "Cut":
        """The cut that costs the fewest bytes."""
        return _cheapest(self)


@dataclass(frozen=True)
class Cut:
    """How much of a product one polynomial holds, and in how many limbs W is written.

    A polynomial holds `batch` images, of each `channels`, and `outputs` kernels. Digits of limbs
    are in -2^(bits-1)..2^(bits-1). Three integers below 2^flood_bits are the noise of an answer.
    """

    batch: int
    channels: int
    outputs: int
    limbs: int
    limb_bits: int
    flood_bits: int

    def blocks(self, plan: Convolution) -> tuple[int, int, int]:
        """Returns the numbers of blocks of images, channels and kernels."""
        sizes = (plan.batch, self.batch), (plan.channels, self.channels)
        images, channels = (-(-whole // part) for whole, part in sizes)
        return images, channels, -(-plan.outputs // self.outputs)

    def request_bytes(self, plan: Convolution) -> int:
        """Returns the exact length of the message of the party that has x."""
        images, channels, _ = self.blocks(plan)
        polynomials = images * channels * self.limbs
        return HEAD_BYTES + SEED_BYTES + polynomials * DEGREE * _FRESH_BITS // 8

    def answer_bytes(self, plan: Convolution) -> int:
        """Returns the exact length of the message of the party that has W."""
        images, _, outputs = self.blocks(plan)
        return HEAD_BYTES + (images * outputs * DEGREE + plan.revealed) * _ANSWER_BITS // 8


def matrices(
    rows: int,
    inner: int,
    columns: int,
    *,
    weight_bits: int = 32,
    flooding: Flooding = USUAL,
) -> Convolution:
    """Returns the plan of x @ W for x of shape (rows, inner) and W of shape (inner, columns).

    Its x has shape (rows, inner, 1, 1), its W (columns, inner, 1, 1).
    """
    return Convolution(rows, inner, 1, 1, columns, (1, 1), 1, weight_bits, flooding)


def error_bound(plan: Convolution, cut: Cut) -> int:
    """Returns a bound of an answer's error before noise, for all W and x of that plan.

    Each limb of W times the errors of fresh ciphertexts (`Flooding.deviations`) and the rounding of
    a message, at most a half, over all entries that meet one coefficient; then a fresh encryption
    of zero and the mask.
    """
    kernels = cut.outputs * cut.channels * plan.kernel[0] * plan.kernel[1]
    entries = min(kernels, DEGREE) * cut.blocks(plan)[1] * cut.limbs
    errors = math.ceil(plan.flooding.deviations * math.sqrt(entries) + entries / 2)
    return (errors << (cut.limb_bits - 1)) + 2 * DEGREE


@lru_cache(maxsize=256)
def _cheapest(plan: Convolution) -> Cut:
    fits = [fit for sizes in _sizes(plan) if (fit := _fewest_limbs(plan, *sizes))]
    return min(fits, key=lambda cut: cut.request_bytes(plan) + cut.answer_bytes(plan))


def _sizes(plan: Convolution) -> Iterator[tuple[int, int, int]]:
    room = DEGREE // (plan.height * plan.width)
    channels, outputs = _parts(plan.channels, room), _parts(plan.outputs, room)
    for held, kernels in product(channels, outputs):
        if held * kernels <= room:
            yield min(plan.batch, room // (held * kernels)), held, kernels


def _parts(whole: int, most: int) -> list[int]:
    """Returns the sizes, of at most `most`, of equal parts, the last one aside."""
    return sorted({size for count in range(1, whole + 1) if (size := -(-whole // count)) <= most})


def _fewest_limbs(plan: Convolution, batch: int, channels: int, outputs: int) -> Cut | None:
    for limbs in range(1, 9):
        width = -(-plan.weight_bits // limbs)
        cut = Cut(batch, channels, outputs, limbs, width, 0)
        bound = error_bound(plan, cut)
        bits = max(plan.flooding.bits(bound), _WORD)
        if (bound + largest(bits) >> _DIVIDED_BITS) + _ROUNDED <= _LARGEST_ERROR:
            return Cut(batch, channels, outputs, limbs, width, bits)
    return None
