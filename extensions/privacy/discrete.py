"""Integers of the discrete Gaussian law, many at once, from a cryptographic generator."""

import math
import os
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from extensions.privacy.gaussian_table import WORD_BITS, Digit, check_noise_scale, digits
from extensions.ring.fixed_point import Integers

RandomBytes = Callable[[int], bytes | bytearray]
"""Returns so many uniform bytes, fresh at each call."""

_AT_ONCE = 1 << 15
"""Values whose words are in memory together."""


def discrete_gaussian(
    scale: float, shape: tuple[int, ...], random_bytes: RandomBytes = os.urandom
) -> Integers:
    """Returns fresh integers with P(k) proportional to exp(-k^2 / (2 scale^2)).

    Integers, because the rounding of floating-point Gaussians gives the unnoised value away
    (Mironov 2012).

    Args:
        scale: standard deviation in ring units, at least 1/8; 0 gives zeros.
        random_bytes: by default of the operating system's generator. With the same bytes in the
            same order it is a function of scale and shape.

    Guarantees:
        The law is the stated one for all integers k up to a factor within 1 +- 2^-58, at scales of
        2 or more (`extensions.privacy.gaussian_table.digits`): 10^9 values change an epsilon by
        less than 10^-8, and nothing is to be added to delta. How much is drawn and computed does
        not depend on the values, but for an event of probability below 2^-48 each, and for the
        entries that are searched for; the addresses that the look-ups read do.

    Cost:
        8 random bytes a value and digit, 3 digits up to a scale of 2^20 and 7 at 2^46; about 0.03
        microseconds of a core each. 4 MB at most beside the result.
    """
    check_noise_scale(scale)
    drawn = np.zeros(math.prod(shape), dtype=np.int64)
    if scale > 0.0:
        table = digits(float(scale))
        for start in range(0, drawn.size, _AT_ONCE):
            part = drawn[start : start + _AT_ONCE]
            for digit in table:
                part += digit.weight * _draw(digit, part.size, random_bytes)
    return drawn.reshape(shape)


def _draw(digit: Digit, count: int, random_bytes: RandomBytes) -> Integers:
    """Returns values of one digit, those beyond its table included."""
    u = _uniform_words(count, random_bytes)
    drawn = digit.look_up(u, lambda: _uniform_words(count, random_bytes))
    for place in np.flatnonzero(drawn > digit.largest):
        drawn[place] = beyond(digit.variance, digit.largest, random_bytes)
    return drawn


def _uniform_words(count: int, random_bytes: RandomBytes) -> Integers:
    """Returns uniform integers in [0, 2^63)."""
    words: Integers = np.frombuffer(random_bytes(8 * count), dtype=np.int64) & (2**WORD_BITS - 1)
    return words


def _below(limit: int, random_bytes: RandomBytes) -> int:
    """Returns a uniform integer in [0, limit)."""
    bits = limit.bit_length()
    while True:
        size = -(-bits // 8)
        drawn = int.from_bytes(random_bytes(size), "big") >> (8 * size - bits)
        if drawn < limit:
            return drawn


def beyond(variance: Fraction, largest: int, random_bytes: RandomBytes = os.urandom) -> int:
    """Returns a discrete Gaussian under the condition that its absolute value exceeds `largest`.

    Exact, by rejection in whole numbers: with a the least value allowed, exp(-(a + x)^2 / 2s^2) is
    exp(-a x / s^2), which is geometric, times exp(-x^2 / 2s^2), and a constant.
    """
    least = largest + 1
    while True:
        excess = 0
        while _happens(least / variance, random_bytes):
            excess += 1
        if _happens(excess**2 / (2 * variance), random_bytes):
            return (1, -1)[_below(2, random_bytes)] * (least + excess)


def _happens(exponent: Fraction, random_bytes: RandomBytes) -> bool:
    """Returns whether an event of probability exp(-exponent) happens.

    Source:
        Canonne, Kamath and Steinke, NeurIPS 2020, Algorithm 1.
    """
    whole = math.floor(exponent)
    certain = all(_series(Fraction(1), random_bytes) for _ in range(whole))
    return certain and _series(exponent - whole, random_bytes)


def _series(exponent: Fraction, random_bytes: RandomBytes) -> bool:
    """Returns the same for an exponent in 0..1: the terms of exp(-exponent) alternate."""
    terms = 1
    while _below(exponent.denominator * terms, random_bytes) < exponent.numerator:
        terms += 1
    return terms % 2 == 1
