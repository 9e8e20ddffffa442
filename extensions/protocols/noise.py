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
from dataclasses import dataclass
from typing import Annotated, Literal

from extensions.errors import ArgumentError
from extensions.options import Option
from extensions.privacy.gaussian_table import MOST_SCALE
from extensions.ring.interface import NoiseDealing, NoiseSource, Ring, Share
from extensions.rules import NOT_NEGATIVE, POSITIVE, Whole, one_of

NoiseShares = Literal["exact", "paper"]
"""How much of the variance each contributor adds (`party_variance`)."""

SMOOTHING = 2.0
"""Deviation, in units of the last place, of what the grid itself takes of the noise."""

LEAST_SCALE = 32.0
"""The least standard deviation of a party's summand, in units of the last place."""

WIDENING = math.sqrt(1 + (SMOOTHING / LEAST_SCALE) ** 2)
"""No noise is wider than stated by a greater factor, for what the grid takes of it."""


@dataclass(frozen=True, kw_only=True)
class NoiseSplit:
    """How the parties divide noise among them.

    Attributes:
        colluders: number of parties, t of m, that may pool what they know: epsilon holds against
            them.
        noise_shares: variance of each party's noise: exact (sigma^2 / (m - t), which leaves sigma^2
            against t parties), or paper (3 sigma^2 / (2m) where that is more).
    """

    colluders: Annotated[int, Whole(0)] = 1
    noise_shares: NoiseShares = "exact"


EVEN = NoiseSplit()
"""Against each single party, with no more noise than that takes."""


def party_variance(parties: int, split: NoiseSplit = EVEN) -> float:
    """Returns the variance of one contributor's summand, in units of the calibrated sigma^2.

    All parties take part in a sum of shares, so that 1 / (m - t) is enough: what t colluding
    parties do not know has variance sigma^2 exactly. The paper's 3 / (2m) is less than
    that for m < 3t, where it leaves less than sigma^2 (0.75 sigma^2 at m = 2), and more for m > 3t,
    where it adds more than it has to: 6 % of the standard deviation at m = 4, 16 % at 10.

    Args:
        parties: number m of those who contribute, the dealer included if it does; at least 1 (the
            plaintext case: the whole variance).

    Source:
        Ruan et al., S&P 2023, Protocol 2.

    Deviation:
        1 / (m - t) instead of 3 / (2m); they are equal for three parties of whom one is curious.
    """
    Whole(1).check("parties", parties)
    one_of(NoiseShares).check("noise_shares", split.noise_shares)
    check_colluders(parties, split.colluders)
    if parties == 1:
        return 1.0
    exact = 1.0 / (parties - split.colluders)
    return max(exact, 3.0 / (2.0 * parties)) if split.noise_shares == "paper" else exact


@dataclass(frozen=True, kw_only=True)
class Noise(NoiseSplit):
    """The bound of each example's gradient, and the noise on a sum of them.

    Attributes:
        max_grad_norm: C, the bound of each example's gradient.
        noise_multiplier: sigma / C, instead of epsilon.
        dealer_noise: let the dealer add noise too, which no party knows, so that each party adds
            sigma^2 / (m + 1 - t) only. The parties trust the dealer to add it.
        private: False trains without clipping and noise, for comparison.
    """

    max_grad_norm: Annotated[float, POSITIVE] = 1.0
    noise_multiplier: Annotated[float | None, NOT_NEGATIVE] = None
    dealer_noise: bool = False
    private: Annotated[
        bool,
        Option(name="no-dp", help="train without clipping and noise: NOT private.", negated=True),
    ] = True

    @property
    def noise(self) -> float:
        """The noise multiplier, 0 as long as there is none."""
        return self.noise_multiplier or 0.0


def check_colluders(parties: int, colluders: int, *, dealer_noise: bool = False) -> None:
    """Checks that so many of the parties may collude.

    Args:
        colluders: number t of them; of one party nothing is asked.
        dealer_noise: whether the dealer contributes. It knows its own summand, and m others of
            variance 1 / (m + 1 - t) are sigma^2 or more for t >= 1 only.
    """
    if parties == 1 and not dealer_noise:
        return
    least = 1 if dealer_noise else 0
    if not least <= colluders < parties:
        advice = "At least one party must be honest."
        if dealer_noise and colluders < 1:
            advice = "The dealer counts as one, because it knows its part of the noise."
        raise ArgumentError("colluders", colluders, f"in {least}..{parties - 1}", advice)


def noise_without(parties: int, missing: int, split: NoiseSplit = EVEN) -> float:
    """Returns how wide noise still is, over the calibrated sigma, if some summands are not there.

    Whether those parties left theirs out, or look at the result and know theirs: with all that may
    collude missing it is 1 or more, with all but one missing that of the one.

    Args:
        parties: number m of those who contribute, the dealer included if it does.
        missing: for how many of them, below m.
    """
    if not 0 <= missing < parties:
        raise ArgumentError("missing", missing, f"in 0..{parties - 1}")
    return math.sqrt((parties - missing) * party_variance(parties, split))


def least_sigma(parties: int, *, frac_bits: int, split: NoiseSplit = EVEN) -> float:
    """Returns the least sigma that is taken on a grid, beside 0 for no noise.

    At a summand of `LEAST_SCALE` units: 46 units of the last place with three parties, 32 with two.
    """
    widest = LEAST_SCALE**2 / party_variance(parties, split)
    return math.ldexp(math.sqrt(widest - SMOOTHING**2), -frac_bits)


def most_sigma(parties: int, *, frac_bits: int, split: NoiseSplit = EVEN) -> float:
    """Returns the sigma from which on the noise of all parties together leaves the ring.

    At a sum of `MOST_SCALE` units: 9e10 with three parties and 20 fractional bits.
    """
    total = parties * party_variance(parties, split)
    return math.ldexp(math.sqrt(MOST_SCALE**2 / total - SMOOTHING**2), -frac_bits)


def summand_scale(parties: int, sigma: float, *, frac_bits: int, split: NoiseSplit = EVEN) -> float:
    """Returns the standard deviation of one summand, in units of the last place.

    Args:
        parties: number of those who contribute, the dealer included if it does.
        sigma: standard deviation that remains after colluding parties subtract theirs.

    Raises:
        ArgumentError: a negative or infinite sigma, one so small that the grid is no finer than the
            noise, or one so large that the noise leaves the ring.
    """
    NOT_NEGATIVE.check("sigma", sigma)
    sigma = float(sigma)  # products of a narrow type of NumPy's would leave its range
    variance = party_variance(parties, split)
    if sigma == 0:
        return 0.0
    bounds = least_sigma, most_sigma
    least, most = (bound(parties, frac_bits=frac_bits, split=split) for bound in bounds)
    if not least <= sigma < most:
        allowed = f"0, or in {least:.3g}..{most:.3g} with {frac_bits} fractional bits"
        advice = "Raise frac_bits, or sigma." if sigma < least else "Lower frac_bits, or sigma."
        raise ArgumentError("sigma", sigma, allowed, advice)
    return math.sqrt(variance) * math.hypot(sigma * 2.0**frac_bits, SMOOTHING)


def add_gaussian_noise(
    ring: Ring,
    x: list[Share],
    sigma: float,
    *,
    frac_bits: int,
    source: NoiseSource,
    split: NoiseSplit = EVEN,
    dealer_noise: bool = False,
) -> list[Share]:
    """Returns each x plus N(0, sigma^2) and more, on the grid 2^-frac_bits; x itself if sigma is 0.

    Args:
        sigma: standard deviation that remains after any t parties subtract theirs.
        dealer_noise: whether who deals correlated randomness contributes as well
            (`extensions.ring.interface.NoiseDealing`): m + 1 summands, each of variance
            1 / (m + 1 - t) sigma^2.

    Guarantees:
        After any t parties subtract their summands, what remains is at least as private
        as N(0, sigma^2), but for a factor of 1 +- 2^-58 in the probability of each value and for
        each other contributor. The total variance is m / (m - t) sigma^2 by default, 1.5 sigma^2
        for three parties and 2 sigma^2 for two, and at most 0.4 % more. With the dealer's noise it
        is (m + 1) / (m + 1 - t) sigma^2, 1.33 sigma^2 and 1.5 sigma^2; sigma^2 or more remains
        against any t parties that the dealer does not side with, and against the dealer alone.
        Should the dealer add none, t parties face (m - t) / (m + 1 - t) sigma^2.

    Cost:
        No round and no byte; about 0.3 microseconds of one core a value and contributor. What the
        dealer adds costs 8 bytes a value, dealt to one of the parties.

    Source:
        Ruan et al., S&P 2023, Protocol 2; its sums by Kairouz, Liu and Steinke, ICML 2021.

    Deviation:
        the variance of a summand, the grid, and the dealer's.
    """
    check_colluders(ring.parties, split.colluders, dealer_noise=dealer_noise)
    summands = ring.parties + dealer_noise
    scale = summand_scale(summands, sigma, frac_bits=frac_bits, split=split)
    noisy = ring.add_noise(x, [scale] * len(x), source)
    if not dealer_noise or not scale:
        return noisy
    if not isinstance(ring, NoiseDealing):
        allowed = "False, because this host has no dealer"
        raise ArgumentError("dealer_noise", True, allowed, "Leave it out.")
    return ring.add_dealt_noise(noisy, scale, source)
