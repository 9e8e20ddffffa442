"""Real numbers as ring integers: X = round(x * 2^f) in two's complement, 64 bits wide."""

import numpy as np
import numpy.typing as npt

from extensions.errors import ArgumentError
from extensions.rules import Whole

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]

RING_BITS = 64
SAFE_BITS = 62
"""Every truncation of this project is right for |z| < 2^62, in every ring."""

MIN_FRAC_BITS, MAX_FRAC_BITS = 8, 24

MAX_ETA = 2.0**-8
ENCODING_SLACK = 1.0 + MAX_ETA
"""Rounding of features to the ring lifts the norm of a row by less than this factor."""


def check_frac_bits(frac_bits: int) -> int:
    """Returns `frac_bits` if the protocols can work with it.

    Raises:
        ArgumentError: outside 8..24, where either the results carry no information or products
            leave the range in which truncation is right.
    """
    advice = "16 and 20 are the presets that the test suite covers."
    Whole(MIN_FRAC_BITS, MAX_FRAC_BITS).check("frac_bits", frac_bits, advice)
    return frac_bits


def wrap(value: int) -> int:
    """Returns the representative of `value` modulo 2^64 in [-2^63, 2^63)."""
    half = 1 << (RING_BITS - 1)
    return (value + half) % (1 << RING_BITS) - half


def encode(values: npt.ArrayLike, frac_bits: int, *, name: str = "values") -> Integers:
    """Returns `values` rounded to the nearest multiple of 2^-frac_bits, as raw ring integers.

    Raises:
        ArgumentError: a value is NaN, infinite, or at least 2^(62 - f) in magnitude.

    Examples:
        >>> from extensions.ring.fixed_point import encode
        >>> encode([0.5, -1.0], frac_bits=4)
        array([  8, -16])
    """
    reals = np.asarray(values, dtype=np.float64)
    if not np.isfinite(reals).all():
        bad = reals[~np.isfinite(reals)].flat[0]
        advice = "Remove or impute missing values first."
        raise ArgumentError(name, float(bad), "finite", advice, code="range")
    limit = 2.0 ** (SAFE_BITS - frac_bits)
    if reals.size and float(np.abs(reals).max()) >= limit:
        allowed = f"below 2^{SAFE_BITS - frac_bits} in magnitude"
        advice = "Rescale the data."
        raise ArgumentError(name, "a number that is too large", allowed, advice, code="range")
    return np.rint(np.ldexp(reals, frac_bits)).astype(np.int64)


def decode(integers: npt.ArrayLike, frac_bits: int) -> Reals:
    """Returns the real numbers that ring integers with `frac_bits` fractional bits stand for.

    Examples:
        >>> from extensions.ring.fixed_point import decode
        >>> decode([8, -16], frac_bits=4)
        array([ 0.5, -1. ])
    """
    return np.ldexp(np.asarray(integers, dtype=np.int64).astype(np.float64), -frac_bits)
