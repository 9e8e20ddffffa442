"""Protocol 1 line by line, as the paper prints it where it is right: for its tables."""

import math

from extensions.protocols.inverse_sqrt import leading_one
from extensions.ring.fixed_point import SAFE_BITS
from extensions.ring.interface import Ring, Share
from extensions.rules import Whole

QUADRATIC = (2.223 - 0.0048, -2.046, 0.8277)
"""The paper's fit on [0.5, 1): relative error from -0.855 % to -0.01 %."""

FIT_BITS = 18


def inverse_sqrt_paper(ring: Ring, x: Share, *, width: int = 40) -> Share:
    """Returns 1/sqrt(x) by the paper's own sequence of steps.

    Args:
        x: shares of ring integers X with the ring's fractional bits f, any shape.
        width: w; the caller declares 0 < X < 2^w, w in 2..62.

    Guarantees:
        Relative error in -0.86 % .. -0.009 % (-0.87 % .. -0.002 % for w > 54, where sqrt(1/2) keeps
        few bits) but for two ulp on either side: not one-sided once an ulp exceeds 1e-4 of the
        result. Use `inverse_sqrt` for clipping.

    Edge cases:
        Zero, negative values and X >= 2^w give about 1.6 * 2^-floor((w - f) / 2), a public constant
        that means nothing.

    Cost:
        Two bit decompositions, one suffix-or, two conversions and at most 9 rounds.

    Source:
        Ruan et al., S&P 2023, Protocol 1; its line numbers stand at the right.

    Deviation:
        u is normalised to [0.5, 1), where the printed quadratic fits, by a product below 2^62;
        exponent and parity are exact; only the log2 w bits that can matter are multiplied up; the
        exponent is shifted by a public constant so that 2^e is an integer.
    """
    Whole(2, SAFE_BITS).check("width", width)
    f, window = ring.frac_bits, range(width)
    bits = ring.bit_decompose(x)  # 1
    suffix = ring.suffix_or(bits)  # 2
    z = ring.bits_to_arithmetic(leading_one(suffix), window)
    half_range, top = (width - f) // 2, 2 * ((width - f) // 2) + 1
    b, n = ring.linear(  # 3, 6
        z, [[1 << (SAFE_BITS - 1 - t) for t in window], [top - (t + 1 - f) for t in window]]
    )
    (product,) = ring.mul([(b, x)])
    (u,) = ring.truncate([(product, SAFE_BITS - FIT_BITS)])  # 4-5

    count = (top + f - 1).bit_length()
    n_bits = ring.bits_to_arithmetic(ring.bit_decompose(n), range(count))  # 7-10
    select_bits = min(20, SAFE_BITS - 2 - FIT_BITS - math.ceil(width / 2) - 1)
    root_half = round(math.ldexp(math.sqrt(0.5), select_bits))
    even = n_bits[0]
    factors = [ring.add_public(even * ((1 << select_bits) - root_half), root_half)]  # 15
    for i in range(1, count):
        factors.append(ring.add_public(n_bits[i] * ((1 << (1 << (i - 1))) - 1), 1))  # 11-12
    while len(factors) > 1:  # 13-14: PreMulC
        pairs = list(zip(factors[::2], factors[1::2], strict=False))
        odd = factors[-1:] if len(factors) % 2 else []
        factors = [*ring.mul(pairs), *odd]

    c0, c1, c2 = (round(math.ldexp(c, FIT_BITS)) for c in QUADRATIC)  # 16
    (tail,) = ring.mul([(u, ring.add_public(u * c2, c1 << FIT_BITS))])
    (p,) = ring.truncate([(ring.add_public(tail, c0 << (2 * FIT_BITS)), 2 * FIT_BITS)])
    (y,) = ring.mul([(p, factors[0])])
    (result,) = ring.truncate([(y, FIT_BITS + select_bits + half_range - f)])  # 17
    return result
