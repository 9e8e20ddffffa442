"""Protocol 2: Gaussian noise that no proper subset of the parties knows.

Each party adds its own draw of a discrete Gaussian to its share; the sum is the noise.

Why a sum of discrete Gaussians may be accounted as one continuous Gaussian of variance s^2, in
units of the last place: the sum over a shifted grid of a Gaussian of deviation r is the same for
every shift up to a factor within 1 +- 3 exp(-2 pi^2 r^2) (Poisson summation). Hence

- the sum of two discrete Gaussians of deviations a and b is one of sqrt(a^2 + b^2), with r = a b /
  sqrt(a^2 + b^2); `LEAST_SCALE` makes r at least 22;
- rounding a continuous Gaussian of variance s^2 at random, by a discrete Gaussian of deviation
  `SMOOTHING` about it, gives a discrete one of variance s^2 + SMOOTHING^2, with r = SMOOTHING.

So what is left after a coalition subtracts its own, of variance s^2 + SMOOTHING^2 or more, is
computed of a sum with continuous noise, up to a factor of 1 +- 2^-111 in every probability: it is
at least as private. What is drawn has the law of a discrete Gaussian up to a factor of 1 +- 2^-58
(`extensions.privacy.gaussian_table`). Narrower noise is refused: on a grid as coarse as itself its
variance vanishes.
"""

import math

from extensions.checks import check_not_negative
from extensions.errors import ArgumentError
from extensions.privacy.gaussian_table import check_noise_scale
from extensions.ring.interface import NoiseSource, Ring, Share

SMOOTHING = 2.0
"""Deviation, in units of the last place, of what the grid itself takes of the noise."""

LEAST_SCALE = 32.0
"""The least standard deviation of a party's summand, in units of the last place."""

WIDENING = math.sqrt(1 + (SMOOTHING / LEAST_SCALE) ** 2)
"""No noise is wider than stated by a greater factor, for what the grid takes of it."""


def party_variance(parties: int, colluders: int = 1) -> float:
    """Returns the variance of one party's summand, in units of the calibrated sigma^2.

    The paper's 3 / (2m) leaves at least sigma^2 to a curious party that subtracts its own summand
    only for m >= 3; at m = 2 it leaves 0.75 sigma^2. The value here, max(3 / (2m), 1 / (m - t)),
    always leaves at least sigma^2 to any t colluding parties.

    Args:
        parties: number m of parties, at least 2 (1 is the plaintext case: the whole variance).
        colluders: number t of parties that may pool what they know, below m.

    Source:
        Ruan et al., S&P 2023, Protocol 2.

    Deviation:
        the second term.
    """
    if parties < 1:
        raise ArgumentError("parties", parties, "at least 1")
    if parties == 1:
        return 1.0
    if not 0 <= colluders < parties:
        raise ArgumentError(
            "colluders", colluders, f"in 0..{parties - 1}", "At least one party must be honest."
        )
    return max(3.0 / (2.0 * parties), 1.0 / (parties - colluders))


def noise_without(parties: int, missing: int, colluders: int = 1) -> float:
    """Returns how wide noise still is, over the calibrated sigma, if some parties' is not there.

    Whether they left theirs out, or look at the result and know theirs: with `colluders` missing it
    is 1 or more, with all but one missing that of the one.

    Args:
        parties: number m of parties.
        missing: for how many of them, below m.
        colluders: for which the noise was made.
    """
    if not 0 <= missing < parties:
        raise ArgumentError("missing", missing, f"in 0..{parties - 1}")
    return math.sqrt((parties - missing) * party_variance(parties, colluders))


def least_sigma(parties: int, *, frac_bits: int, colluders: int = 1) -> float:
    """Returns the least sigma that is taken on a grid, beside 0 for no noise.

    At a party's summand of `LEAST_SCALE` units: 46 units of the last place with three parties, 32
    with two.
    """
    widest = LEAST_SCALE**2 / party_variance(parties, colluders)
    return math.ldexp(math.sqrt(widest - SMOOTHING**2), -frac_bits)


def summand_scale(parties: int, sigma: float, *, frac_bits: int, colluders: int = 1) -> float:
    """Returns the standard deviation of one party's summand, in units of the last place.

    Args:
        parties: number of parties who draw.
        sigma: standard deviation that remains after any `colluders` parties subtract theirs.
        frac_bits: fractional bits of the grid.
        colluders: number of parties that may pool what they know.

    Raises:
        ArgumentError: a negative or infinite sigma, one so small that the grid is no finer than the
            noise, or one so large that the noise leaves the ring.
    """
    check_not_negative("sigma", sigma)
    least = least_sigma(parties, frac_bits=frac_bits, colluders=colluders)
    if sigma == 0:
        return 0.0
    if sigma < least:
        raise ArgumentError(
            "sigma",
            sigma,
            f"0, or at least {least:.3g} with {frac_bits} fractional bits",
            "Raise frac_bits, or sigma.",
        )
    variance = party_variance(parties, colluders)
    scale = math.sqrt(variance) * math.hypot(sigma * 2.0**frac_bits, SMOOTHING)
    check_noise_scale(scale * math.sqrt(parties))
    return scale


def add_gaussian_noise(
    ring: Ring,
    x: list[Share],
    sigma: float,
    *,
    frac_bits: int,
    source: NoiseSource,
    colluders: int = 1,
) -> list[Share]:
    """Returns each x plus N(0, sigma^2) and more, on the grid 2^-frac_bits; x itself if sigma is 0.

    Guarantees:
        After any `colluders` parties subtract their summands, what remains is at least as private
        as N(0, sigma^2), but for a factor of 1 +- 2^-58 in the probability of each value and for
        each other party. The total variance is parties * party_variance * sigma^2, 1.5 sigma^2 for
        three or more parties and 2 sigma^2 for two, and at most 0.4 % more.

    Cost:
        No round and no byte; about 0.3 microseconds of one core a value and party.

    Source:
        Ruan et al., S&P 2023, Protocol 2; its sums by Kairouz, Liu and Steinke, ICML 2021.

    Raises:
        ArgumentError: `summand_scale` cannot be drawn.
    """
    scale = summand_scale(ring.parties, sigma, frac_bits=frac_bits, colluders=colluders)
    return ring.add_noise(x, [scale] * len(x), source)
