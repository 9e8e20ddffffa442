"""Matrix products modulo 2^64 by floating-point ones, which processors are far better at."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from extensions.ring.fixed_point import RING_BITS, Integers

Place = Any
"""An index of an array."""
EXACT_BITS = 53
"""Integers of at most so many bits, and their sums, are exact in double precision."""
SMALL = 2**16
"""Below so many products of entries NumPy's own loop is as fast."""
BLOCK = 2**16
"""Entries of an operand that are worked on at once, where there are more: what caches hold."""
_INNER = 512
"""Columns of a block at least, so that adding blocks up costs little beside their products."""


def matmul(x: Integers, y: Integers) -> Integers:
    """Returns x @ y modulo 2^64, exactly, for any shapes that NumPy's ``@`` takes.

    Either operand is written in signed limbs, so narrow that no product of limbs leaves the range
    in which floating-point sums are exact. Their number follows the size of the entries.
    """
    if x.size * y.shape[-1] < SMALL:
        found: Integers = x @ y
        return found
    batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    total = np.zeros((*batch, x.shape[-2], y.shape[-1]), dtype=np.int64)
    for into, left, right in _blocks(x, y):
        _add_product(total[into], x[left], y[right])
    return total


def _blocks(x: Integers, y: Integers) -> Iterator[tuple[Place, Place, Place]]:
    """Yields where a product of blocks belongs, and the blocks of x and y."""
    rows, inner, columns = *x.shape[-2:], y.shape[-1]
    if x.shape[:-2] == y.shape[:-2] != ():
        count = max(1, BLOCK // max(rows * inner, inner * columns, rows * columns))
        for start in range(0, len(x), count):
            part = slice(start, start + count)
            yield part, part, part
        return
    width = max(_INNER, BLOCK // columns)
    height = max(BLOCK // min(width, inner), columns)
    for row, column in product(range(0, rows, height), range(0, inner, width)):
        own, shared = slice(row, row + height), slice(column, column + width)
        yield (..., own, slice(None)), (..., own, shared), (..., shared, slice(None))


def _add_product(total: Integers, x: Integers, y: Integers) -> None:
    room = EXACT_BITS - int(x.shape[-1]).bit_length()
    width = _first_width(_bits(x), _bits(y), room)
    right = list(_limbs(y, room - width))
    for i, a in _limbs(x, width):
        for j, b in right:
            if i + j < RING_BITS:
                total += (a @ b).astype(np.int64) << (i + j)


def _bits(x: Integers) -> int:
    return max(abs(int(x.max())), abs(int(x.min()))).bit_length() + 2


def _first_width(bits: int, others: int, room: int) -> int:
    """Returns the limb width of the first operand for which there are the fewest products."""

    def products(width: int) -> int:
        return -(-bits // width) * -(-others // (room - width))

    return min(range(1, room), key=products)


def _limbs(x: Integers, width: int) -> Iterator[tuple[int, npt.NDArray[np.float64]]]:
    """Yields (shift, limb), the limbs times 2^shift summing to x modulo 2^64."""
    half, mask = np.int64(1 << (width - 1)), np.int64((1 << width) - 1)
    for shift in range(0, RING_BITS, width):
        if not x.any():
            return
        low = ((x + half) & mask) - half
        yield shift, low.astype(np.float64)
        x = (x - low) >> width
