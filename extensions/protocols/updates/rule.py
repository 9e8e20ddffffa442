"""What the steps of an optimizer are made of noisy sums by; each optimizer is one such class."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, ClassVar, Protocol, Self

from extensions.protocols.dpsgd import Sums
from extensions.protocols.dpsgd_plan import StepPlan
from extensions.protocols.drift import Moving
from extensions.ring.interface import Ring

Kept = Mapping[str, Sums]
"""By name, what goes on from step to step beside the model, as weights and biases."""


class UpdateRule(Hashable, Protocol):
    """How the steps of one training use their sums.

    Attributes:
        settings: names of those that are for this rule alone.
    """

    settings: ClassVar[Sequence[str]]

    @property
    def plan(self) -> StepPlan:
        """Of the sums."""

    @property
    def moving(self) -> Moving:
        """What tells how far a step may move weights."""

    @property
    def fixed(self) -> Self:
        """The same rule for any learning rate: what a program that outlives the rate computes."""

    @classmethod
    def names_of(cls, config: Any) -> Sequence[str]:
        """Returns the names of what it keeps beside the model."""

    @classmethod
    def of(cls, config: Any, plan: StepPlan) -> Self:
        """Returns the rule behind sums of that plan.

        Raises:
            ArgumentError: what it needs does not fit the ring.
        """

    def moved(self, rates: Sequence[float]) -> float:
        """Returns a bound of the norm by which steps move all weights together.

        Args:
            rates: what the learning rate is multiplied by in each.
        """

    def public(self, number: int, rate: float = 1.0, last: int | None = None) -> Sequence[int]:
        """Returns the public integers of a step.

        Args:
            number: of the step, from 1 on.
            rate: what the learning rate is multiplied by.
            last: what `last` returned of the step before, if it may have had another rate.
        """

    def last(self, public: Sequence[int]) -> int | None:
        """Returns what the integers of the next step depend on, of this one's."""

    def after(self, ring: Ring, sums: Sums, kept: Kept, public: Sequence[Any]) -> tuple[Sums, Kept]:
        """Returns what a step takes from weights and biases, and what it keeps for the next one.

        None stands for what is frozen.

        Args:
            ring: the host.
            sums: noisy.
            kept: of the step before, zeros at first.
            public: the integers of the step, or what stands for them.
        """
