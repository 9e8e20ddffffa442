"""Stochastic gradient descent on shares, with momentum or without, at any learning rate."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from extensions.protocols.dpsgd import Sums, updates_of
from extensions.protocols.updates.rule import Kept, UpdateRule
from extensions.ring.interface import Ring

VELOCITY = "velocity"
"""What the last step took from weights and biases."""


class SGDRule(UpdateRule):
    """Plain steps, with momentum or without; one truncation."""

    settings: ClassVar[Sequence[str]] = ("momentum",)

    @classmethod
    def names_of(cls, config: Any) -> Sequence[str]:
        return [VELOCITY] if config.momentum > 0 else []

    @property
    def fixed(self) -> "SGDRule":
        """The same without learning rate and batch size, which are in the public integers."""
        return SGDRule(replace(self.plan, learning_rate=1.0, expected_batch_size=1.0))

    def moved(self, rates: Sequence[float]) -> float:
        """Returns a bound of the norm by which steps move all weights, with rates as rounded."""
        first, _ = self.plan.step_ratio
        return super().moved([max(1, round(first * rate)) / first for rate in rates])

    def public(self, number: int, rate: float = 1.0, last: int | None = None) -> list[int]:
        """Returns numerator and exponent of what sums are multiplied by.

        All rates of one plan have one exponent, so that what momentum carries over keeps its
        range: a rate is right within 2^-9 of the first one, and never 0, which would be a step for
        nothing. For the same reason no step with momentum is truncated by more bits than the one
        before it: with a lower learning rate than then the numerator has fewer bits instead, and is
        never 0. Else they are those of `StepPlan.step_ratio`.
        """
        plan, (numerator, exponent) = self.plan, self.plan.step_ratio
        less = 0 if last is None else exponent + plan.factor_bits - last
        if less > 0:
            exponent -= less
            exact = math.ldexp(plan.learning_rate / plan.expected_batch_size, exponent)
            numerator = max(1, round(exact))
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
