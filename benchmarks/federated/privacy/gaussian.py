"""The classical noise of one Gaussian release beside the least noise, and what it is worth."""

import math
from typing import Any

from benchmarks.federated.running import DELTA
from fl.privacy.analytic_gaussian import analytic_noise, gaussian_delta

EPSILONS = (0.1, 0.2, 0.5, 0.9, 1.0, 2.0, 3.0, 5.0, 7.0, 8.0, 10.0)


def classical_noise(epsilon: float) -> float:
    """Returns sigma = sqrt(2 ln(1.25 / DELTA)) / epsilon, which is proved for epsilon < 1.

    It is its own inverse: for a sigma it returns the epsilon that is claimed.

    Source:
        Dwork and Roth, 2014, Theorem A.1.
    """
    return math.sqrt(2 * math.log(1.25 / DELTA)) / epsilon


def gaussian_rows() -> list[dict[str, Any]]:
    """Returns what the classical formula asks for, what one release needs, and what it is worth."""
    rows = []
    for wanted in EPSILONS:
        classical, analytic = classical_noise(wanted), analytic_noise(wanted, DELTA)
        delta = gaussian_delta(wanted, classical)
        rows.append(
            {
                "epsilon": wanted,
                "sigma, classical": classical,
                "sigma, analytic": analytic,
                "classical / analytic": classical / analytic,
                "delta of the classical sigma": delta,
                "private as stated": "yes" if delta <= DELTA else "no",
                "proved": "yes" if wanted < 1 else "no",
            }
        )
    return rows
