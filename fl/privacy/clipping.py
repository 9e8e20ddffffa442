"""Updates clipped to a norm and put on a grid, so that discrete noise protects them exactly."""

import math

import numpy as np
import numpy.typing as npt

from extensions.errors import ArgumentError
from fl.round.machines import Vector

Units = npt.NDArray[np.int64]
"""Multiples of 2^-frac_bits."""

NOISE_UNITS = 2.0**10
"""Least standard deviation of the noise on a grid, where discrete Gaussians count as continuous."""
_ROUNDING = 2.0**-24
"""Relative error, at most, of a norm of up to 2^28 values in double precision."""


def norm_of(update: Vector, order: int) -> float:
    """Returns the L1 norm (order 1) or the L2 norm (order 2); infinite where it overflows."""
    with np.errstate(over="ignore"):
        return float(np.linalg.norm(update, ord=order))


def clip_to_grid(update: Vector, clip: float, *, order: int, frac_bits: int) -> Units:
    """Returns the update in units of 2^-frac_bits, in exact arithmetic of norm at most clip.

    Args:
        update: any finite values (size,).
        clip: the bound; longer updates are scaled down to it, less 2^-24 of it.
        order: 1 or 2, of the norm.
        frac_bits: of the grid. Values are rounded toward 0, which lengthens no vector.

    Edge cases:
        An update whose norm overflows becomes 0.
    """
    bound = clip * (1 - _ROUNDING)
    norm = norm_of(update, order)
    scaled = update if norm <= bound else update * (bound / norm)
    units: Units = np.trunc(np.ldexp(scaled, frac_bits)).astype(np.int64)
    return units


def bits_for(scale: float, least: float) -> int:
    """Returns the fewest fractional bits with which `scale` of noise is at least `least` units."""
    units = least / scale if scale > 0.0 else math.inf
    if not 0.0 < units < math.inf:
        rule, hint = (
            "within double precision",
            "Change the clipping norm, or the noise.",
        )
        raise ArgumentError("noise", scale, rule, hint, code="range")
    return math.ceil(math.log2(units))
