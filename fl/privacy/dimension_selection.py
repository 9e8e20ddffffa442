"""How many of SignDS's dimensions come from the top k: the exponential mechanism, exactly.

A set J of h of d dimensions has probability proportional to e^epsilon if at least nu_th of them are
among the top k, to 1 otherwise. So nu = |J and top k| has weights
C(k, nu) C(d - k, h - nu) (e^epsilon if nu >= nu_th else 1), and given nu both parts are uniform.
"""

import bisect
import functools
import itertools
import math
import secrets
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from extensions.errors import ArgumentError
from extensions.rules import Whole

_EXP_ERROR = 2.0**-50
"""Relative error of exp in double precision, at most."""


@dataclass(frozen=True, kw_only=True)
class DimensionSelection:
    """The distribution of nu.

    Guarantees:
        The weights are integers and the draw is uniform below their sum, so that probabilities are
        what `probability` says, without rounding. e^epsilon is rounded down: no set of dimensions
        is more than e^epsilon times as likely with one top k as with another.

    Attributes:
        dimensions: d, size of the update.
        top: k, size of the top k.
        selected: h, dimensions to select.
        epsilon: of one selection.

    Raises:
        ArgumentError: a top k or a selection that does not fit the dimensions.

    Source:
        Jiang, Zhou and Grossklags, "SignDS-FL", ACM TIST 2022.
    """

    dimensions: int
    top: int
    selected: int
    epsilon: float

    def __post_init__(self) -> None:
        if not 1 <= self.top <= self.dimensions // 2:
            rule = f"such that the top k are 1..{self.dimensions // 2} of {self.dimensions}"
            raise ArgumentError("sign_k", self.top / self.dimensions, rule, code="range")
        hint = "It is at most the top k. Lower it, or raise {sign_k}."
        Whole(1, self.top).check("sign_dim_out", self.selected, hint)

    @functools.cached_property
    def threshold(self) -> int:
        """nu_th*: the threshold in 1..h of the largest mean of nu."""
        return 1 + int(np.argmax(self.means))

    @property
    def mean(self) -> float:
        """E[nu] at that threshold."""
        return float(np.max(self.means))

    @functools.cached_property
    def means(self) -> npt.NDArray[np.float64]:
        """E[nu] for each threshold 1..h (h,)."""
        tau = np.arange(self.selected + 1)
        logs = _log_binomial(self.top, tau)
        logs += _log_binomial(self.dimensions - self.top, self.selected - tau)
        weights = np.exp(logs - logs.max())
        total, first = weights.sum(), (tau * weights).sum()
        tail = np.cumsum(weights[::-1])[::-1][1:]
        first_tail = np.cumsum((tau * weights)[::-1])[::-1][1:]
        boost = math.expm1(self.epsilon)
        means: npt.NDArray[np.float64] = (first + boost * first_tail) / (total + boost * tail)
        return means

    @functools.cached_property
    def weights(self) -> tuple[int, ...]:
        """Integers proportional to the probabilities of nu = 0..h."""
        boost = max(Fraction(1), Fraction(math.exp(self.epsilon)) * Fraction(1 - _EXP_ERROR))
        return tuple(
            math.comb(self.top, nu)
            * math.comb(self.dimensions - self.top, self.selected - nu)
            * (boost.numerator if nu >= self.threshold else boost.denominator)
            for nu in range(self.selected + 1)
        )

    def probability(self, nu: int) -> Fraction:
        """Returns the probability of nu, exactly."""
        return Fraction(self.weights[nu], sum(self.weights))

    def draw(self) -> int:
        """Returns a fresh nu, by the inverse of its distribution function."""
        reached = list(itertools.accumulate(self.weights))
        return bisect.bisect_right(reached, secrets.randbelow(reached[-1]))


@functools.lru_cache(maxsize=64)
def select(
    dimensions: int, top: int, epsilon: float, ratio: float, selected: int = 0
) -> DimensionSelection:
    """Returns the selection of so many dimensions, or of as many as keep the share of the top k.

    Args:
        dimensions: d.
        top: k.
        epsilon: of one selection.
        ratio: wanted share of the top k among those selected, on average.
        selected: h; 0: the last h of 1, 2, ... before E[nu] falls below ratio h, at most k, and 1
            if even that does.
    """
    make = functools.partial(DimensionSelection, dimensions=dimensions, top=top, epsilon=epsilon)
    if selected:
        return make(selected=selected)
    best = make(selected=1)
    for h in range(2, top + 1):
        candidate = make(selected=h)
        if candidate.mean < ratio * h:
            break
        best = candidate
    return best


def _log_binomial(n: int, k: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    from scipy.special import gammaln

    logs: npt.NDArray[np.float64] = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    return logs
