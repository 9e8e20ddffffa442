"""What a step makes of noisy sums, in the graph that is being traced, and what it goes on from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from extensions.protocols.dpsgd import Sums, updates_of
from extensions.protocols.dpsgd_plan import StepPlan
from extensions.protocols.optimizer import AdamPlan, adam_updates
from tfe_ext.keras.steps.iterates import FIRST, SECOND, VELOCITY
from tfe_ext.ring.aby3_ring import ABY3Ring

Kept = Mapping[str, Sums]
"""By its name, what goes on from step to step, as weights and biases."""


@dataclass(frozen=True)
class Descent:
    """Plain steps, with momentum or without.

    Attributes:
        plan: of the sums; its learning rate and expected batch size are not used.
    """

    plan: StepPlan

    @property
    def names(self) -> tuple[str, ...]:
        """Of what goes on beside the weights."""
        return (VELOCITY,) if self.plan.momentum_numerator else ()

    def after(
        self, ring: ABY3Ring, sums: Sums, public: Sequence[Any], last: Kept
    ) -> tuple[Sums, Kept]:
        """Returns what a step takes from weights and biases, and what else is stored after it.

        The velocity is not: it is the difference of two models that are.

        Args:
            ring: the host.
            sums: noisy.
            public: numerator and exponent of the step's ratio (`ratio_after`).
            last: what went on from the step before.
        """
        numerator, exponent = public
        ratio = numerator, exponent
        return updates_of(ring, sums, self.plan, ratio, last.get(VELOCITY)), {}


@dataclass(frozen=True)
class Adam:
    """Steps by both moments; see `extensions.protocols.optimizer.adam.adam_step`.

    Attributes:
        adam: the public constants; its learning rate is not used.
    """

    adam: AdamPlan

    names = (FIRST, SECOND)

    @property
    def plan(self) -> StepPlan:
        """Of the sums."""
        return self.adam.step

    def after(
        self, ring: ABY3Ring, sums: Sums, public: Sequence[Any], last: Kept
    ) -> tuple[Sums, Kept]:
        """Returns what a step takes from weights and biases, and both moments after it.

        Args:
            ring: the host.
            sums: noisy.
            public: the integers of `AdamStep`.
            last: the moments before.
        """
        first, second = (last[name] for name in self.names)
        updates, after = adam_updates(ring, sums, (first, second), self.adam, public)
        return updates, dict(zip(self.names, after, strict=True))


Rule = Descent | Adam
