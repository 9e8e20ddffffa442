"""One-sided polynomials for u^(-1/2) on [0.5, 1): never above it, whatever the rounding."""

import functools
from dataclasses import dataclass

import numpy as np

MINIMAX: dict[int, tuple[float, ...]] = {
    2: (2.226848626477706, -2.0596411266592396, 0.8327925001815331),
    3: (2.604064481108269, -3.6379060081363637, 2.989099224323279, -0.9562152511482587),
    4: (
        2.930026688520935,
        -5.475910630327488,
        6.804453547057755,
        -4.408318831167316,
        1.1497492259161122,
    ),
}
"""Coefficients c_0..c_d of the best one-sided fits in relative error (0.64 %, 0.096 %, 0.015 %).

Source: Remez exchange for |q(u) sqrt(u) - 1|, divided by one plus its error; the test suite finds
them again by linear programming.
"""

_GRID = 1 << 14
_GRID_SLACK = 1e-8
"""More than any of these functions can rise between two points of the grid above their values."""


@dataclass(frozen=True, kw_only=True)
class OneSided:
    """A fit with coefficients on a grid, and how far below u^(-1/2) it stays.

    Attributes:
        coefficients: c_1..c_d times 2^coefficient_bits, rounded to integers.
        constant: the largest c_0 for which the rounded polynomial stays below u^(-1/2).
        below: how far below 0.5 it does so, too.
        slope_u: bound of the derivative towards u when u^2 follows u.
        slope_w: bound of the derivative towards u^2 alone (0 for degree 2).
    """

    coefficients: tuple[int, ...]
    coefficient_bits: int
    constant: float
    below: float
    slope_u: float
    slope_w: float

    def padded(self, degree: int) -> tuple[int, ...]:
        """Returns c_1..c_degree, with zeros beyond the fit's own degree."""
        return (*self.coefficients, *[0] * (degree - self.degree))

    @property
    def degree(self) -> int:
        """Degree of the polynomial, that of the constant term being 0."""
        return len(self.coefficients)

    @functools.cache  # noqa: B019 - there are few fits, and all are kept
    def relative_error(self, lowered_by: float = 0.0) -> float:
        """Returns the largest relative distance below u^(-1/2) when c_0 is lowered so much."""
        u = _grid(self.below)
        value = self.constant - lowered_by + _without_constant(self, u)
        return float(np.max(1.0 - value * np.sqrt(u)))


def _grid(below: float) -> np.ndarray:
    return np.linspace(0.5 - below, 1.0, _GRID + 1)


def _without_constant(fit: OneSided, u: np.ndarray) -> np.ndarray:
    scale = 2.0**-fit.coefficient_bits
    return sum(
        (scale * c * u**k for k, c in enumerate(fit.coefficients, start=1)), start=np.zeros_like(u)
    )


@functools.cache
def one_sided(degree: int, coefficient_bits: int, below: float = 0.0) -> OneSided:
    """Returns the one-sided fit of that degree with coefficients rounded to the given bits.

    Args:
        below: how far below 0.5 it is to be one-sided, too.
    """
    exact = MINIMAX[degree]
    rounded = tuple(round(c * 2**coefficient_bits) for c in exact[1:])
    u = _grid(below)
    c = exact + (0.0,) * (5 - len(exact))
    fit = OneSided(
        coefficients=rounded,
        coefficient_bits=coefficient_bits,
        constant=0.0,
        below=below,
        slope_u=1.01 * float(np.abs(sum(k * c[k] * u ** (k - 1) for k in range(1, 5))).max()),
        slope_w=1.01 * float(np.abs(c[2] + c[3] * u + 2 * c[4] * u**2).max())
        if degree > 2
        else 0.0,
    )
    constant = float(np.min(u**-0.5 - _without_constant(fit, u))) - _GRID_SLACK
    return OneSided(**{**vars(fit), "constant": constant})
