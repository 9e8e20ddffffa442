"""How far approximations of 1/sqrt(x) lie from it, in figures for a table."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.inverse_sqrt.points import HIGH

Values = NDArray[np.float64]


def relative(x: Values, y: Values) -> Values:
    """Returns (y - 1/sqrt(x)) sqrt(x)."""
    error: Values = y * np.sqrt(x) - 1.0
    return error


def row(x: Values, y: Values) -> dict[str, Any]:
    """Returns a row of the table: worst and mean errors to HIGH, and the worst ones beyond it."""
    near, error = x <= HIGH, relative(x, y)
    absolute = error[near] / np.sqrt(x[near])
    return {
        "worst below, %": _below(100 * error[near]),
        "worst above, %": _above(100 * error[near]),
        "mean, %": float(100 * error[near].mean()),
        "worst below": _below(absolute),
        "worst above": _above(absolute),
        "points above, %": 100 * float((error[near] > 0).mean()),
        "beyond 300: below, %": _below(100 * error[~near]),
        "above, %": _above(100 * error[~near]),
    }


def _below(error: Values) -> float:
    return max(0.0, -float(error.min()))


def _above(error: Values) -> float:
    return max(0.0, float(error.max()))
