"""Stochastic gradient descent on shares, with momentum or without, at any learning rate."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from extensions.protocols.dpsgd import Sums, updates_of
from extensions.protocols.dpsgd_plan import StepPlan
from extensions.protocols.updates.rule import Kept
from extensions.ring.interface import Ring

VELOCITY = "velocity"
"""What the last step took from weights and biases."""


@dataclass(frozen=True)
class SGDRule:
    """Plain steps, with momentum or without; one truncation.

    Attributes:
        plan: of the sums.
    """

    settings: ClassVar[Sequence[str]] = ("momentum",)
    plan: StepPlan

    @property
    def moving(self) -> StepPlan:
        """That of the sums."""
        return self.plan

    @property
    def fixed(self) -> "SGDRule":
        """The same without learning rate and batch size, which are in the public integers."""
        return SGDRule(replace(self.plan, learning_rate=1.0, expected_batch_size=1.0))

    @classmethod
    def names_of(cls, config: Any) -> Sequence[str]:
        """Returns the velocity with momentum, and nothing without."""
        return [VELOCITY] if config.momentum > 0 else []

    @classmethod
    def of(cls, config: Any, plan: StepPlan) -> "SGDRule":
        """Returns the rule behind sums of that plan."""
        return cls(plan)

    def moved(self, rates: Sequence[float]) -> float:
        """Returns a bound of the norm by which steps move all weights, with rates as rounded."""
        first, _ = self.plan.step_ratio
        return self.plan.moved([max(1, round(first * rate)) / first for rate in rates])

    def public(self, number: int, rate: float = 1.0, last: int | None = None) -> list[int]:
        """Returns numerator and exponent of what sums are multiplied by.

        All rates of one plan have one exponent, so that what momentum carries over keeps its
        range: a rate is right within 2^-9 of the first one, and never 0, which would be a step for
        nothing.
        """
        numerator, exponent = ratio_after(self.plan, last)
        return [max(1, round(numerator * rate)), exponent]

    def last(self, public: Sequence[int]) -> int | None:
        """Returns by how many bits a step with momentum was truncated."""
        if not self.plan.momentum_numerator:
            return None
        return int(public[1]) + self.plan.factor_bits

    def after(self, ring: Ring, sums: Sums, kept: Kept, public: Sequence[Any]) -> tuple[Sums, Kept]:
        """Returns the updates, which are the velocity of the next step; see `updates_of`."""
        numerator, exponent = public
        updates = updates_of(ring, sums, self.plan, (numerator, exponent), kept.get(VELOCITY))
        return updates, {VELOCITY: updates} if VELOCITY in kept else {}


def ratio_after(plan: StepPlan, truncated: int | None) -> tuple[int, int]:
    """Returns the numerator and exponent by which a step multiplies its sum, of any learning rate.

    With momentum no later step is truncated by more bits than an earlier one, so that what it
    carries over keeps to the range that `StepPlan` proves: with a lower learning rate than before
    the numerator has fewer bits instead, and is never 0. Else they are those of
    `StepPlan.step_ratio`.

    Args:
        plan: of the step.
        truncated: by how many bits the step before it was truncated (`SGDRule.last`); None
            without momentum, and of the first one.
    """
    numerator, exponent = plan.step_ratio
    less = 0 if truncated is None else exponent + plan.factor_bits - truncated
    if less <= 0:
        return numerator, exponent
    exact = math.ldexp(plan.learning_rate / plan.expected_batch_size, exponent - less)
    return max(1, round(exact)), exponent - less
