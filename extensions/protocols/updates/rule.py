"""What the steps of an optimizer are made of noisy sums by; each optimizer is one such class."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from extensions.errors import ArgumentError
from extensions.protocols.dpsgd import Sums
from extensions.protocols.dpsgd_plan import INITIAL_WEIGHT_SHARE, StepPlan
from extensions.ring.interface import Ring

Kept = Mapping[str, Sums]
"""By name, what goes on from step to step beside the model, as weights and biases."""


@dataclass(frozen=True)
class UpdateRule(ABC):
    """How the steps of one training use their sums; `settings` are for this rule alone."""

    settings: ClassVar[Sequence[str]] = ()
    plan: StepPlan

    @classmethod
    def names_of(cls, config: Any) -> Sequence[str]:
        """Returns the names of what it keeps beside the model."""
        return []

    @classmethod
    def of(cls, config: Any, plan: StepPlan) -> Self:
        """Returns the rule behind sums of that plan."""
        return cls(plan)

    @property
    def fixed(self) -> Self:
        """The same rule for any learning rate: what a program that outlives the rate computes."""
        return replace(self, plan=replace(self.plan, learning_rate=1.0))

    @property
    def largest_pull(self) -> float:
        """Bound of the norm by which a step's sum moves all weights, in it and in later ones."""
        return self.plan.largest_pull

    @property
    def largest_noise(self) -> float:
        """Bound of that by which its noise does; over several steps these add in squares."""
        return self.plan.largest_noise

    def moved(self, rates: Sequence[float]) -> float:
        """Returns a bound of the norm by which steps at multiples of the rate move all weights."""
        squares = math.fsum(rate**2 for rate in rates)
        return math.fsum(rates) * self.largest_pull + math.sqrt(squares) * self.largest_noise

    def check_moved(self, rates: Sequence[float], max_weight_norm: float) -> None:
        """Raises ArgumentError if weights that steps move so far might leave their bound.

        Only the gradients of hidden layers depend on that bound.
        """
        moved, allowed = self.moved(rates), (1.0 - INITIAL_WEIGHT_SHARE) * max_weight_norm
        if self.plan.moves and moved > allowed:
            raise ArgumentError(
                "learning_rate",
                self.plan.learning_rate,
                f"such that {len(rates)} steps move weights by {allowed:g} at most",
                f"They may move by {moved:.4g}. Lower it, raise max_weight_norm, or train less.",
            )

    @abstractmethod
    def public(self, number: int, rate: float = 1.0, last: int | None = None) -> Sequence[int]:
        """Returns the public integers of a step.

        Args:
            number: of the step, from 1 on.
            rate: what the learning rate is multiplied by.
            last: what `last` returned of the step before, if it may have had another rate.
        """

    def last(self, public: Sequence[int]) -> int | None:
        """Returns what the integers of the next step depend on, of this one's."""
        return None

    @abstractmethod
    def after(self, ring: Ring, sums: Sums, kept: Kept, public: Sequence[Any]) -> tuple[Sums, Kept]:
        """Returns what a step takes from weights and biases, and what it keeps for the next one.

        None stands for what is frozen.

        Args:
            kept: of the step before, zeros at first.
            public: the integers of the step, or what stands for them.
        """
