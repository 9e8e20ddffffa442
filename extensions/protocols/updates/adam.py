"""Adam on shares: both moments of noisy sums, and a step by their quotient, for every ring.

All is post-processing of a noisy sum: epsilon is that of the sums.
"""

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from extensions.errors import ArgumentError
from extensions.privacy.gaussian_table import TAIL
from extensions.protocols.dpsgd import Sums, paired, parts_of
from extensions.protocols.dpsgd_plan import LEARNING_RATE_BITS, PLAIN_NORM, StepPlan
from extensions.protocols.inverse_sqrt import InverseSqrtPlan, inverse_sqrt
from extensions.protocols.updates.rule import Kept, UpdateRule
from extensions.ring.fixed_point import SAFE_BITS
from extensions.ring.interface import Ring, Share

FIRST, SECOND = "first_moment", "second_moment"
"""The means of gradients and of their squares, in units of the noise."""
BETA_BITS = 10
FLOOR = 2.0**-4
"""Least second moment, in units of the noise's variance."""
EPS = 2.0**-8
"""Without noise, the root of the least second moment."""
RATE_BITS = 14
"""Of the largest numerator: early ones may be 32 times smaller."""


@dataclass(frozen=True)
class Betas:
    """How Adam weighs earlier gradients (beta_1) and their squares (beta_2), rounded to 2^-10."""

    first: float = 0.9
    second: float = 0.999

    @property
    def numerators(self) -> tuple[int, int]:
        """Both in units of 2^-BETA_BITS."""
        return round(self.first * (1 << BETA_BITS)), round(self.second * (1 << BETA_BITS))

    def left(self, step: int) -> tuple[float, float]:
        """Returns 1 - beta^t of both, as they are rounded, for the t-th step."""
        first, second = (math.ldexp(n, -BETA_BITS) for n in self.numerators)
        return 1.0 - first**step, 1.0 - second**step


@dataclass(frozen=True)
class AdamRule(UpdateRule):
    """Adam's steps by both moments, behind noisy sums; see `adam_step`.

    With g_t the noisy sum of step t over `unit`, m_t = beta_1 m_(t - 1) + (1 - beta_1) g_t and v_t
    = beta_2 v_(t - 1) + (1 - beta_2) g_t^2, a step takes from the weights

        lr (m_t / (1 - beta_1^t)) / sqrt(max(v_t / (1 - beta_2^t) - n, floor)),

    where n is the variance of the noise in g_t: 1 with noise, whose standard deviation is the unit
    then, and 0 without, where the floor is 1.

    Args:
        plan: of the sums; its learning rate is Adam's, and it has no momentum.
        floor: in units of the noise's variance, in 2^-8..1.
        eps: without noise, the root of the least second moment of the mean gradient.

    Source:
        Kingma and Ba, ICLR 2015; Tang, Shpilevskiy and Lecuyer, "DP-AdamBC: your DP-Adam is
        actually DP-SGD (unless you apply bias correction)", AAAI 2024, Algorithm 1, which takes the
        noise's variance from v_t / (1 - beta_2^t) and does not let the rest fall below gamma'.

    Deviation:
        Moments are in units of the noise, so that 1 is its variance; 1/sqrt is Protocol 1's, at
        most 0.64 % below. Without noise the floor is under the root, and eps not added to it.
    """

    settings: ClassVar[Sequence[str]] = ("beta1", "beta2", "adam_floor")
    betas: Betas = Betas()
    floor: float = FLOOR
    eps: float = EPS

    def __post_init__(self) -> None:
        if self.plan.momentum_numerator:
            raise ArgumentError("momentum", self.plan.momentum, "0 with Adam, whose beta_1 it is")
        if not 0 <= self.shift + self.factor_bits <= SAFE_BITS - 8:
            raise ArgumentError("learning_rate", self.plan.learning_rate, "in 2^-20..2^8 with Adam")
        if min(self.square_bits - math.ceil(self.frac_bits / 2), self.factor_bits - 6) < 0:
            raise ArgumentError(
                "eps" if not self.noisy else "noise_multiplier",
                self.eps if not self.noisy else self.plan.noise_multiplier,
                "larger",
                f"A gradient may be {self.largest:.3g} units, too many for frac_bits = "
                f"{self.frac_bits}. Lower the batch size, or frac_bits.",
            )

    @classmethod
    def names_of(cls, config: Any) -> Sequence[str]:
        return [FIRST, SECOND]

    @classmethod
    def of(cls, config: Any, plan: StepPlan) -> "AdamRule":
        eps = getattr(config, "eps", EPS)
        return cls(plan, Betas(config.beta1, config.beta2), config.adam_floor, eps)

    @property
    def fixed(self) -> "AdamRule":
        """The same without the learning rate, and without what is in the public integers."""
        expected = 1.0 if self.noisy else self.plan.expected_batch_size
        plan = replace(self.plan, learning_rate=1.0, expected_batch_size=expected)
        return replace(self, plan=plan)

    @property
    def frac_bits(self) -> int:
        """Fractional bits of both moments."""
        return self.plan.frac_bits

    @property
    def noisy(self) -> bool:
        """Whether sums have noise, in whose deviation moments are counted."""
        return self.plan.private and self.plan.noise > 0

    @property
    def unit(self) -> float:
        """Of sums: the standard deviation of all their noise, or eps times the batch size."""
        if self.noisy:
            return self.plan.noise_scale(1 + self.plan.eta)
        return self.eps * self.plan.expected_batch_size

    @property
    def least(self) -> float:
        """The floor in squared units."""
        return self.floor if self.noisy else 1.0

    @property
    def largest(self) -> float:
        """Bound of a gradient in units, but with probability 2^-70."""
        each = self.plan.max_grad_norm * (1 + self.plan.eta) if self.plan.private else PLAIN_NORM
        return self.plan.rows * each / self.unit + TAIL * self.noisy

    @property
    def _largest_bits(self) -> int:
        return math.ceil(math.log2(self.largest))

    @property
    def square_bits(self) -> int:
        """Fractional bits of gradients that are squared: squares and 10 bits stay below 2^60."""
        return min(self.frac_bits, (SAFE_BITS - 2 - BETA_BITS) // 2 - self._largest_bits)

    @property
    def factor_bits(self) -> int:
        """Fractional bits of the first moment in the last product, which stays below 2^61."""
        root = -0.5 * math.log2(self.least * self.betas.left(1)[1])
        taken = RATE_BITS + self.frac_bits + self._largest_bits + math.ceil(root)
        return min(self.frac_bits, SAFE_BITS - 1 - taken)

    @functools.cached_property
    def to_units(self) -> tuple[int, int]:
        """(K, m) with K / 2^m nearest to one over the unit, K of 10 bits."""
        mantissa, exponent = math.frexp(1.0 / self.unit)
        return round(mantissa * (1 << LEARNING_RATE_BITS)), LEARNING_RATE_BITS - exponent

    def rate(self, step: int) -> float:
        """Returns what the quotient of the moments is multiplied by in the t-th step."""
        first, second = self.betas.left(step)
        return self.plan.learning_rate * math.sqrt(second) / first

    @functools.cached_property
    def shift(self) -> int:
        """Fractional bits of the numerators, which have RATE_BITS at most."""
        horizon = 1 << (BETA_BITS + 3)
        largest = max(map(self.rate, (1, *(1 << i for i in range(1, 14)), horizon)))
        return RATE_BITS - math.frexp(largest * 1.5)[1]

    def public(self, number: int, rate: float = 1.0, last: int | None = None) -> list[int]:
        """Returns the public integers of a step, which depend on its number alone.

        The numerator of the learning rate with both bias corrections, and its fractional bits; what
        is taken from the second moment, the noise's part and the floor; the least that is left.
        """
        left = self.betas.left(number)[1] * (1 << self.frac_bits)
        floor = max(1, round(left * self.least))
        taken = round(left) if self.noisy else 0
        numerator = max(1, round(math.ldexp(rate * self.rate(number), self.shift)))
        return [numerator, self.shift, taken + floor, floor]

    @property
    def root(self) -> InverseSqrtPlan:
        """The constants of 1/sqrt."""
        return InverseSqrtPlan(frac_bits=self.frac_bits, degree=2)

    @property
    def largest_pull(self) -> float:
        """Bounds the norm by which one step moves all weights, whatever the gradients are.

        The corrected first moment is a mean of gradients, and so no longer than the longest, all
        rows' pulls and all noise; it is divided by the root of the floor at most. Weight by weight,
        its square is at most kappa times the corrected second moment (Cauchy and Schwarz), of which
        half is left where it is 2 or more, and the floor else.
        """
        p = self.plan.parameters
        pulls = self.largest - TAIL * self.noisy
        longest = (pulls + self.noisy * (math.sqrt(p) + 10.0)) / math.sqrt(self.least)
        each = math.sqrt(2 * self._kappa / self.least)
        return self.plan.learning_rate * 1.01 * min(longest, math.sqrt(p) * each)

    @property
    def largest_noise(self) -> float:
        """0: what noise moves is part of `largest_pull`."""
        return 0.0

    def after(self, ring: Ring, sums: Sums, kept: Kept, public: Sequence[Any]) -> tuple[Sums, Kept]:
        plan = self.plan
        both = ([kept[name][i][j] for i, j in plan.parts] for name in (FIRST, SECOND))
        bits = [j * plan.layers[i].bias_bits for i, j in plan.parts]
        moved, after = adam_step(ring, parts_of(sums), Moments(*both), self, public, bits)
        found = {FIRST: paired(after.first, plan), SECOND: paired(after.second, plan)}
        return paired(moved, plan), found

    @property
    def _kappa(self) -> float:
        first, second = (math.ldexp(n, -BETA_BITS) for n in self.betas.numerators)
        if first**2 >= second:
            return math.inf
        return max(1.0, (1 - first) ** 2 / ((1 - second) * (1 - first**2 / second)))


@dataclass
class Moments:
    """Shares of both moments of each weight and bias, in units."""

    first: list[Share]
    second: list[Share]


def adam_step(
    ring: Ring,
    sums: Sequence[Share],
    moments: Moments,
    rule: AdamRule,
    public: Sequence[Any],
    bias_bits: Sequence[int],
) -> tuple[list[Share], Moments]:
    """Returns what to subtract from each weight and bias, and the moments after the step.

    Args:
        sums: noisy, with frac_bits + factor_bits fractional bits, weights and biases in turn.
        moments: before the step; zeros before the first one.
        public: the integers of the step, or what stands for them where a program outlives them;
            of the shift an `extensions.ring.words.Exponent`.
        bias_bits: for each sum the bits b of its input 2^-b; 0 for weights.

    Guarantees:
        Post-processing of the sums; nothing is opened. Moments are right within an ulp a step, the
        root as `inverse_sqrt` says.

    Cost:
        A truncation, a product, a truncation, a selection, `inverse_sqrt` of degree 2, a product
        and a truncation, where plain steps take one truncation.
    """
    shapes = [share.shape for share in sums]
    m, v, coarse = _moments(ring, _joined(ring, sums), moments, rule)
    numerator, shift, threshold, floor = public
    ones = ring.add_public(v * 0, 1)
    above = v - ones * threshold
    selected = ring.select(above, [0], [[1]], [])
    root = inverse_sqrt(ring, above - selected.products[0] + ones * floor, rule.root)
    (quotient,) = ring.mul([(coarse, root)])
    parts = _apart(quotient * numerator, shapes)
    moved = ring.truncate(
        [
            (part, shift + (rule.factor_bits + bits))
            for part, bits in zip(parts, bias_bits, strict=True)
        ]
    )
    return moved, Moments(_apart(m, shapes), _apart(v, shapes))


def _moments(
    ring: Ring, sums: Share, before: Moments, rule: AdamRule
) -> tuple[Share, Share, Share]:
    """Returns both moments after a step, and the first with `factor_bits` fractional bits."""
    m, v = _joined(ring, before.first), _joined(ring, before.second)
    f, h = rule.frac_bits, rule.square_bits
    factor, bits = rule.to_units
    bits += rule.plan.factor_bits
    scaled = sums * factor
    gradient, short = ring.truncate([(scaled, bits), (scaled, bits + f - h)])
    (square,) = ring.mul([(short, short)])
    one, (b1, b2) = 1 << BETA_BITS, rule.betas.numerators
    mean = m * b1 + gradient * (one - b1)
    spread = v * (b2 << (2 * h - f)) + square * (one - b2)
    m, v, coarse = ring.truncate(
        [
            (mean, BETA_BITS),
            (spread, BETA_BITS + 2 * h - f),
            (mean, BETA_BITS + f - rule.factor_bits),
        ]
    )
    return m, v, coarse


def _joined(ring: Ring, shares: Sequence[Share]) -> Share:
    """Returns all elements of the shares in turn, (elements,); local."""
    sizes = [math.prod(share.shape) for share in shares]
    total, start, joined = sum(sizes), 0, None
    for share, size in zip(shares, sizes, strict=True):
        places = np.full(total, -1, dtype=np.int64)
        places[start : start + size] = np.arange(size)
        part = ring.gather(share.reshape(1, size), places).reshape(total)
        joined = part if joined is None else joined + part
        start += size
    return joined


def _apart(share: Share, shapes: Sequence[Sequence[int]]) -> list[Share]:
    """Returns the shares of which `_joined` made this one; local."""
    starts = np.cumsum([0, *map(math.prod, shapes)]).tolist()
    return [
        share[start:end].reshape(*shape)
        for (start, end), shape in zip(itertools.pairwise(starts), shapes, strict=True)
    ]
