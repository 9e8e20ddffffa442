"""Protocol 2: Gaussian noise that no proper subset of the parties knows.

Each party adds its own draw of a discrete Gaussian to its share; the sum is the noise.
"""

import math

from extensions.checks import check_not_negative
from extensions.errors import ArgumentError
from extensions.privacy.discrete import check_noise_scale
from extensions.ring.interface import NoiseSource, Ring, Share


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


def add_gaussian_noise(
    ring: Ring,
    x: list[Share],
    sigma: float,
    *,
    frac_bits: int,
    source: NoiseSource,
    colluders: int = 1,
) -> list[Share]:
    """Returns each x plus N(0, sigma^2) and more, on the grid 2^-frac_bits.

    Guarantees:
        After any `colluders` parties subtract their summands, noise of variance at least sigma^2
        remains; the total variance is parties * party_variance * sigma^2 (1.5 sigma^2 for three or
        more parties, 2 sigma^2 for two).

    Cost:
        No round and no byte; about 12 microseconds of one core a value and party.
    """
    check_not_negative("sigma", sigma)
    scale = math.sqrt(party_variance(ring.parties, colluders)) * math.ldexp(sigma, frac_bits)
    check_noise_scale(scale * math.sqrt(ring.parties))
    return ring.add_noise(x, [scale] * len(x), source)
