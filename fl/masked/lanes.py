"""Several values in one element of the ring, which add up side by side."""

import math
from collections.abc import Collection

import numpy as np

from extensions.errors import ArgumentError
from extensions.rules import Whole
from fl.round.quantization import FixedPoint, RingVector


def words(size: int, lanes: int) -> int:
    """Returns how many elements hold so many values."""
    return -(-size // lanes)


def check_lanes(weights: Collection[int], fixed_point: FixedPoint, lanes: int) -> None:
    """Checks that no weighted sum of values in range leaves its lane."""
    Whole(1, fixed_point.bits // 2).check("lanes", lanes)
    width = fixed_point.bits // lanes
    largest = sum(math.ldexp(fixed_point.clip * w, fixed_point.frac_bits) for w in weights)
    if lanes > 1 and largest + len(weights) >= 2 ** (width - 1):
        raise ArgumentError(
            "lanes",
            lanes,
            f"such that a sum of {len(weights)} clients of total weight {sum(weights)} fits "
            f"{width} bits",
            "Lower {lanes}, {frac_bits} or the range, or take equal weights or 64 bits.",
            code="range",
        )


def pack(values: RingVector, lanes: int) -> RingVector:
    """Returns the values, read as signed integers, side by side in fewer elements.

    Value i + j l is in lane j of element i, of l elements: sums of elements are those of the
    integers sum_j v_j 2^(j width), whose lanes `unpack` separates.
    """
    if lanes == 1:
        return values
    length, width = words(values.size, lanes), 8 * values.itemsize // lanes
    packed: RingVector = np.zeros(length, dtype=values.dtype)
    for lane in range(lanes):
        part = values[lane * length : (lane + 1) * length]
        packed[: part.size] += part << values.dtype.type(lane * width)
    return packed


def unpack(total: RingVector, size: int, lanes: int) -> RingVector:
    """Returns the sums of so many values whose lanes were added up; see `check_lanes`."""
    if lanes == 1:
        return total
    bits = 8 * total.itemsize
    width, signed = bits // lanes, np.dtype(f"i{total.itemsize}")
    rest, found = total.copy(), []
    for _ in range(lanes):
        above = signed.type(bits - width)
        lane = (rest << total.dtype.type(bits - width)).view(signed) >> above
        found.append(lane.view(total.dtype))
        rest = (rest - found[-1]) >> total.dtype.type(width)
    values: RingVector = np.concatenate(found)[:size]
    return values
