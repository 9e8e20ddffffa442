"""What the steps of an optimizer make of noisy sums: one class for each optimizer.

A rule is made once of a training's settings and of the plan of its sums, and serves every host and
every entry: runs, scripts of CrypTen, models of Keras. Another optimizer is another class in
`RULES`, under the name that settings give it.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

from extensions.protocols.dpsgd import Sums, input_bits, paired, parts_of, trained_of, updates_of
from extensions.protocols.dpsgd_plan import StepPlan
from extensions.protocols.drift import Moving
from extensions.protocols.optimizer.adam import AdamPlan, Betas, Moments, adam_step
from extensions.protocols.optimizer.schedule import ratio_after, truncated_bits
from extensions.protocols.settings import Training
from extensions.ring.interface import Ring

VELOCITY = "velocity"
"""What the last step took from weights and biases."""
FIRST, SECOND = "first_moment", "second_moment"
"""Of Adam: the means of gradients and of their squares, in units of the noise."""

Kept = Mapping[str, Sums]
"""By name, what goes on from step to step beside the model, as weights and biases."""


class Rule(Hashable, Protocol):
    """How the steps of one training use their sums."""

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
    def names_of(cls, config: Training) -> Sequence[str]:
        """Returns the names of what it keeps beside the model."""

    @classmethod
    def of(cls, config: Training, plan: StepPlan) -> Self:
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


@dataclass(frozen=True)
class Descent:
    """Plain steps, with momentum or without; one truncation.

    Attributes:
        plan: of the sums.
    """

    plan: StepPlan

    @property
    def moving(self) -> StepPlan:
        """That of the sums."""
        return self.plan

    @property
    def fixed(self) -> "Descent":
        """The same without learning rate and batch size, which are in the public integers."""
        return Descent(replace(self.plan, learning_rate=1.0, expected_batch_size=1.0))

    @classmethod
    def names_of(cls, config: Training) -> Sequence[str]:
        """Returns the velocity with momentum, and nothing without."""
        return [VELOCITY] if config.momentum > 0 else []

    @classmethod
    def of(cls, config: Training, plan: StepPlan) -> "Descent":
        """Returns the rule behind sums of that plan."""
        return cls(plan)

    def moved(self, rates: Sequence[float]) -> float:
        """Returns a bound of the norm by which steps move all weights, with rates as rounded."""
        first, _ = self.plan.step_ratio
        return self.plan.moved([self.public(1, rate)[0] / first for rate in rates])

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
        return truncated_bits(self.plan, public[1])

    def after(self, ring: Ring, sums: Sums, kept: Kept, public: Sequence[Any]) -> tuple[Sums, Kept]:
        """Returns the updates, which are the velocity of the next step; see `updates_of`."""
        numerator, exponent = public
        updates = updates_of(ring, sums, self.plan, (numerator, exponent), kept.get(VELOCITY))
        return updates, {VELOCITY: updates} if VELOCITY in kept else {}


@dataclass(frozen=True)
class Adam:
    """Adam's steps by both moments; see `adam_step`.

    Attributes:
        moving: the public constants.
    """

    moving: AdamPlan

    @property
    def plan(self) -> StepPlan:
        """Of the sums."""
        return self.moving.step

    @property
    def fixed(self) -> "Adam":
        """The same without the learning rate, and without what is in the public integers."""
        expected = 1.0 if self.moving.noisy else self.plan.expected_batch_size
        step = replace(self.plan, learning_rate=1.0, expected_batch_size=expected)
        return Adam(replace(self.moving, step=step))

    @classmethod
    def names_of(cls, config: Training) -> Sequence[str]:
        """Returns both moments."""
        return [FIRST, SECOND]

    @classmethod
    def of(cls, config: Training, plan: StepPlan) -> "Adam":
        """Returns the rule behind sums of that plan.

        Raises:
            ArgumentError: its constants do not fit the ring.
        """
        betas = Betas(config.beta1, config.beta2)
        return cls(AdamPlan(step=plan, betas=betas, floor=config.adam_floor, eps=config.least_root))

    def moved(self, rates: Sequence[float]) -> float:
        """Returns a bound of the norm by which steps move all weights together."""
        return self.moving.moved(rates)

    def public(self, number: int, rate: float = 1.0, last: int | None = None) -> list[int]:
        """Returns the integers of `AdamStep`."""
        return [*self.moving.public(number, rate)]

    def last(self, public: Sequence[int]) -> int | None:
        """Returns None: steps depend on their number alone."""
        return None

    def after(self, ring: Ring, sums: Sums, kept: Kept, public: Sequence[Any]) -> tuple[Sums, Kept]:
        """Returns the updates, and both moments."""
        plan = self.plan
        before = Moments(*(trained_of(kept[name], plan) for name in (FIRST, SECOND)))
        moved, after = adam_step(
            ring, parts_of(sums), before, self.moving, public, input_bits(plan)
        )
        found = {FIRST: paired(after.first, plan), SECOND: paired(after.second, plan)}
        return paired(moved, plan), found


RULES: dict[str, type[Rule]] = {"sgd": Descent, "adam": Adam}
"""By the name of an optimizer in settings."""


def rule_for(config: Training) -> type[Rule]:
    """Returns the rule of a training's optimizer."""
    return RULES[config.optimizer]
