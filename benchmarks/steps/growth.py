"""How a cost grows: its exponent in one factor, and its law in several, by least squares."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from extensions.errors import ArgumentError

Term = tuple[str, ...]
"""The factors that a coefficient is multiplied by; () for the constant."""


_NOTHING = 1e-9
"""A term that is nowhere so large a part of the cost is what floating point left of zero."""


@dataclass(frozen=True, kw_only=True)
class PowerLaw:
    """y = scale * x^exponent, and the part of log y's variance that it explains."""

    exponent: float
    scale: float
    r_squared: float


@dataclass(frozen=True, kw_only=True)
class Law:
    """y = the sum of coefficient * product of the term's factors.

    Attributes:
        coefficients: of each term, a product of factors.
        worst: the largest relative difference between the law and a value it was fitted to.
    """

    coefficients: dict[Term, float]
    worst: float

    def at(self, point: Mapping[str, float]) -> float:
        """Returns the law's value at a point."""
        return sum(
            value * float(np.prod([point[name] for name in term]))
            for term, value in self.coefficients.items()
        )


def power_law(x: Sequence[float], y: Sequence[float]) -> PowerLaw:
    """Returns the straight line through (log x, log y); R^2 is 1 where y is constant.

    Raises:
        ArgumentError: fewer than two different x, or a value that is not positive.
    """
    if len(set(x)) < 2 or min(*x, *y) <= 0:
        rule = "positive, with at least two different x"
        raise ArgumentError("x, y", (list(x), list(y)), rule, code="range")
    log_x, log_y = np.log(x), np.log(y)
    exponent, intercept = np.polyfit(log_x, log_y, 1)
    residual = float(((log_y - exponent * log_x - intercept) ** 2).sum())
    total = float(((log_y - log_y.mean()) ** 2).sum())
    if total < 1e-20:
        return PowerLaw(exponent=0.0, scale=float(y[0]), r_squared=1.0)
    return PowerLaw(
        exponent=float(exponent),
        scale=float(np.exp(intercept)),
        r_squared=1.0 - residual / total,
    )


def multilinear(points: Sequence[Mapping[str, float]], values: Sequence[float]) -> Law:
    """Returns the law that is linear in each factor, with the least squared relative residuals.

    Args:
        points: the factors' values, all with the same names.
        values: the positive cost at each point.

    Raises:
        ArgumentError: points that do not determine all coefficients.
    """
    names = list(points[0])
    terms = [term for size in range(len(names) + 1) for term in itertools.combinations(names, size)]
    columns = np.array([[np.prod([p[name] for name in term]) for term in terms] for p in points])
    return _fit(terms, columns, values)


def of_parties(parties: Sequence[int], values: Sequence[float]) -> Law:
    """Returns the law a (n - 1) + b (1 - 1/n) of n parties, with the least squared residuals.

    What each party sends to every other grows as the first, what goes around a ring, or only owners
    send, as the second.

    Raises:
        ArgumentError: fewer than two different numbers of parties.
    """
    n = np.asarray(parties, dtype=np.float64)
    return _fit([("n - 1",), ("1 - 1/n",)], np.column_stack([n - 1, 1 - 1 / n]), values)


def _fit(terms: Sequence[Term], columns: NDArray[np.float64], values: Sequence[float]) -> Law:
    largest = np.abs(columns).max(axis=0)
    y = np.asarray(values, dtype=np.float64)
    scaled, _, rank, _ = np.linalg.lstsq(
        columns / largest / y[:, None], np.ones(len(y)), rcond=None
    )
    if rank < len(terms):
        rule = f"such that they determine {len(terms)} terms"
        raise ArgumentError("points", f"{len(values)} of rank {rank}", rule, code="shape")
    coefficients = scaled / largest
    shares = np.abs(columns * coefficients / y[:, None]).max(axis=0)
    coefficients[shares < _NOTHING] = 0.0
    return Law(
        coefficients={term: float(c) for term, c in zip(terms, coefficients, strict=True)},
        worst=float(np.abs(columns @ coefficients / y - 1.0).max()),
    )
