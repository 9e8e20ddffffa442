"""What a step makes of a noisy sum: the public integers that it needs, and the state after it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from extensions.protocols.dpsgd import Sums, input_bits, paired, parts_of, trained_of, updates_of
from extensions.protocols.dpsgd_plan import StepPlan
from extensions.protocols.optimizer.adam import AdamPlan, Betas, Moments, adam_step
from extensions.protocols.optimizer.schedule import multipliers, numerators
from extensions.protocols.optimizer.state import State
from extensions.protocols.settings import EPS, Training
from extensions.ring.interface import Ring, Share


class Rule(Protocol):
    """How the steps of one run use their sums."""

    def public(self, number: int) -> Sequence[int]:
        """Returns the public integers of a step, from number 1 on."""

    def after(
        self, ring: Ring, sums: Sums, state: State, public: Sequence[Any], counted: Any
    ) -> State:
        """Returns the state after a step.

        Args:
            ring: the host.
            sums: noisy.
            state: before it.
            public: of the step, or what stands for them.
            counted: as in `State.after`.
        """


@dataclass(frozen=True)
class Descent:
    """Plain steps, with momentum or without; one truncation.

    Attributes:
        plan: of the first step.
        factors: of each step.
    """

    plan: StepPlan
    factors: Sequence[int]

    def public(self, number: int) -> list[int]:
        """Returns the numerator of the step's rate."""
        return [self.factors[number - 1]]

    def after(
        self, ring: Ring, sums: Sums, state: State, public: Sequence[Any], counted: Any
    ) -> State:
        """Returns the state after a step; see `updates_of`."""
        ratio = public[0], self.plan.step_ratio[1]
        return state.after(updates_of(ring, sums, self.plan, ratio, state.velocity), counted)


@dataclass(frozen=True)
class Adam:
    """Adam's steps; see `adam_step`.

    Attributes:
        plan: of all steps.
        rates: what the learning rate is multiplied by in each.
    """

    plan: AdamPlan
    rates: Sequence[float]

    def public(self, number: int) -> list[int]:
        """Returns the integers of `AdamStep`."""
        return [*self.plan.public(number, self.rates[number - 1])]

    def after(
        self, ring: Ring, sums: Sums, state: State, public: Sequence[Any], counted: Any
    ) -> State:
        """Returns the state after a step, with both moments."""
        moments = state.first, state.second
        updates, after = adam_updates(ring, sums, moments, self.plan, public)
        return state.after(updates, counted, after)


def adam_updates(
    ring: Ring, sums: Sums, moments: tuple[Sums, Sums], plan: AdamPlan, public: Sequence[Any]
) -> tuple[list[tuple[Share | None, Share | None]], tuple[Sums, Sums]]:
    """Returns, for each layer, what a step takes from its weight and bias, and both moments.

    None stands for what is frozen, whose moments before the step are not used.

    Args:
        ring: the host.
        sums: noisy.
        moments: before the step, of each layer's weight and bias.
        plan: the public constants.
        public: as in `adam_step`.
    """
    step = plan.step
    before = Moments(*(trained_of(each, step) for each in moments))
    moved, after = adam_step(ring, parts_of(sums), before, plan, public, input_bits(step))
    return paired(moved, step), (paired(after.first, step), paired(after.second, step))


def rule_of(config: Training, plan: StepPlan) -> Rule:
    """Returns how a run's steps use their sums.

    Args:
        config: of the run.
        plan: of its first step.

    Raises:
        ArgumentError: what Adam needs does not fit the ring.
    """
    if config.optimizer == "sgd":
        return Descent(plan, numerators(plan, config.lr_schedule, config.steps))
    return Adam(adam_of(config, plan), multipliers(config.lr_schedule, config.steps))


def adam_of(config: Training, plan: StepPlan, eps: float = EPS) -> AdamPlan:
    """Returns the constants of Adam behind sums of that plan.

    Args:
        config: of the training.
        plan: of its steps.
        eps: without noise, the root of the least second moment.
    """
    betas = Betas(config.beta1, config.beta2)
    return AdamPlan(step=plan, betas=betas, floor=config.adam_floor, eps=eps)
