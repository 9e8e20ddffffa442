"""How far private steps may have moved the weights, so that norm bounds keep holding."""

import math
from collections.abc import Sequence

from extensions.errors import GradientError
from extensions.protocols.dpsgd_plan import INITIAL_WEIGHT_SHARE, StepPlan


class Drift:
    """Bounds added up over the steps of one model.

    Args:
        max_weight_norm: public bound of the Frobenius norm that any hidden weight may reach.
    """

    def __init__(self, max_weight_norm: float) -> None:
        self._max_weight_norm = max_weight_norm
        self._steps = 0
        self._pull = 0.0
        self._noise_energy = 0.0

    def state(self) -> list[float]:
        """Returns what was added up so far."""
        return [self._steps, self._pull, self._noise_energy]

    def restore(self, state: Sequence[float]) -> None:
        """What `state` returned counts as added up."""
        self._steps, self._pull, self._noise_energy = int(state[0]), state[1], state[2]

    def add(self, plan: StepPlan, steps: int = 1) -> None:
        """Counts steps that are about to be made.

        Raises:
            GradientError: of `check`; nothing is counted then.
        """
        self.check(plan, steps)
        self.count(plan, steps)

    def count(self, plan: StepPlan, steps: int = 1) -> None:
        """Counts steps that were checked."""
        if len(plan.layers) > 1 and plan.private:
            self._pull += steps * plan.largest_pull
            self._noise_energy += steps * plan.largest_noise**2
        self._steps += steps

    def check(self, plan: StepPlan, steps: int) -> None:
        """Makes sure that so many more steps are within the bound.

        Raises:
            GradientError: after them the norm bound of hidden layers might no longer hold.
        """
        if len(plan.layers) > 1 and plan.private:
            pull = self._pull + steps * plan.largest_pull
            energy = self._noise_energy + steps * plan.largest_noise**2
            allowed = (1.0 - INITIAL_WEIGHT_SHARE) * self._max_weight_norm
            if pull + math.sqrt(energy) > allowed:
                raise GradientError(
                    f"After {self._steps} steps, {steps} more might move the weights by more than "
                    f"{allowed:g} in all (max_weight_norm = {self._max_weight_norm:g}), beyond "
                    "which the norms of hidden gradients are no longer proven to fit the ring. "
                    "Lower the learning rate, train for fewer steps, or declare a larger "
                    "max_weight_norm."
                )
