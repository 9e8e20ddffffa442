"""What goes from step to step, in shares: the model, and by name what its optimizer keeps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from extensions.errors import ArgumentError
from extensions.network.passes import Parameters
from extensions.protocols.dpsgd import Sums
from extensions.protocols.host import Host, flat, pairs
from extensions.protocols.settings import Training
from extensions.protocols.updates import VELOCITY, Kept, rule_for
from extensions.ring.fixed_point import SAFE_BITS, Integers
from extensions.ring.interface import Ring, Share

PREVIOUS = "previous"
"""The model before the last step."""
TOTAL = "total"
"""The sum of earlier iterates whose mean is taken, that of the model itself not included."""

MEAN_BITS = 10
"""The mean's divisor is right within 2^-MEAN_BITS / 2 of itself, and mostly much closer."""
_MOST_BITS = 30


@dataclass(frozen=True)
class State:
    """Shares of what a run needs to go on.

    The velocity, what the last step took from the model, is the difference of two models: hosts
    that store shares in a form of their own (`tfe_ext.run.host`) have both in that form already.

    Attributes:
        model: weight and bias of each layer.
        beside: by name `PREVIOUS`, `TOTAL` and what the optimizer's rule keeps, each as large as
            the model; in the order in which hosts and checkpoints keep them.
    """

    model: Parameters
    beside: Mapping[str, Parameters] = field(default_factory=dict)

    @classmethod
    def begin(cls, host: Host, config: Training, model: Parameters) -> "State":
        """Returns the state before the first step; local.

        Args:
            host: that holds the shares.
            config: of the run.
            model: to begin with.
        """
        names = _beside(config)
        if not names:
            return cls(model)
        summands = [
            [*own, *(part if name == PREVIOUS else _zeros(part) for name in names for part in own)]
            for own in host.summands(model)
        ]
        return cls.of(host.restore(summands), config)

    @staticmethod
    def models(config: Training) -> int:
        """Returns of how many parts as large as a model the state of a run consists."""
        return 1 + len(_beside(config))

    @classmethod
    def of(cls, parts: Parameters, config: Training) -> "State":
        """Returns the state of a run that is not finished, whose `parts` these are."""
        names = _beside(config)
        layers = len(parts) // (1 + len(names))
        model, *rest = [parts[i : i + layers] for i in range(0, len(parts), layers)]
        return cls(model, dict(zip(names, rest, strict=True)))

    def like(self, parts: Parameters) -> "State":
        """Returns the state whose `parts` these are, in place of its own."""
        layers = len(self.model)
        model, *rest = [parts[i : i + layers] for i in range(0, len(parts), layers)]
        return State(model, dict(zip(self.beside, rest, strict=True)))

    @property
    def parts(self) -> Parameters:
        """All of it as weights and biases in turn, as hosts and checkpoints keep them."""
        return [*self.model, *(pair for part in self.beside.values() for pair in part)]

    @property
    def kept(self) -> Kept:
        """What the optimizer's rule goes on from, by its names."""
        if PREVIOUS not in self.beside:
            return self.beside
        both = zip(flat(self.beside[PREVIOUS]), flat(self.model), strict=True)
        return {**self.beside, VELOCITY: pairs([before - now for before, now in both])}

    def after(self, updates: Sums, kept: Kept, counted: Any) -> "State":
        """Returns the state after a step; local.

        Args:
            updates: what it takes from weights and biases; None from those that are frozen.
            kept: what the rule goes on from next; None of those that stay.
            counted: 1 if the present model is one of those whose mean is taken, else 0.
        """
        beside: dict[str, Parameters] = {}
        for name, before in self.beside.items():
            if name == PREVIOUS:
                beside[name] = self.model
            elif name == TOTAL:
                both = zip(flat(before), flat(self.model), strict=True)
                beside[name] = pairs([so_far + part * counted for so_far, part in both])
            else:
                beside[name] = _each(before, kept[name], lambda _, new: new)
        return State(_each(self.model, updates, lambda own, change: own - change), beside)


def _each(own: Parameters, others: Sums, change: Any) -> Parameters:
    """Returns weights and biases, changed where there is another part."""
    return [
        tuple(
            part if other is None else change(part, other)
            for part, other in zip(*both, strict=True)
        )
        for both in zip(own, others, strict=True)
    ]


def _beside(config: Training) -> list[str]:
    """The names of what there is beside the model."""
    kept = rule_for(config).names_of(config)
    names = [PREVIOUS] if VELOCITY in kept else []
    names += [TOTAL] if iterates(config.average, config.steps) > 1 else []
    return [*names, *(name for name in kept if name != VELOCITY)]


def iterates(average: float, steps: int) -> int:
    """Returns of how many of the last iterates the mean is taken; at least of the very last.

    Args:
        average: the last part of the steps.
        steps: of the whole training.
    """
    return max(1, round(average * steps))


def _zeros(summand: Integers) -> Integers:
    """Zeros of the summand's shape, which is all that is asked of it: it may be elsewhere."""
    return np.zeros(tuple(summand.shape), dtype=np.int64)


@dataclass(frozen=True)
class Mean:
    """The mean of the last iterates of a run, as the public numbers that make it.

    Args:
        count: number of iterates.
        steps: of the run.
        numerator: with `shift`, 1 / count.
        shift: likewise.
    """

    count: int
    steps: int
    numerator: int
    shift: int

    @classmethod
    def over(cls, average: float, steps: int, frac_bits: int, largest: float) -> "Mean":
        """Returns that of a run.

        The sum of n weights below `largest`, times a numerator of 2^shift / n + 1/2 at most, is
        below 2^(f + shift) largest (1 + 2^-10), within 2^61.

        Args:
            average: the last part of the steps, whose iterates count.
            steps: of the run.
            frac_bits: of weights.
            largest: bound of a weight's magnitude in all of them.

        Raises:
            ArgumentError: too few bits are left for the division.
        """
        count = iterates(average, steps)
        reach = np.log2(max(largest, 1.0) * 1.001)
        shift = min(_MOST_BITS, SAFE_BITS - 1 - frac_bits - int(np.ceil(reach)))
        if count > 1 and shift < MEAN_BITS + np.log2(count):
            raise ArgumentError(
                "average",
                average,
                f"0 for steps of this size: weights may reach {largest:.3g}",
                "Lower the learning rate, the number of steps, or frac_bits.",
            )
        return cls(count, steps, round(2.0 ** max(shift, 0) / count), shift)

    def counts(self, step: int) -> int:
        """Returns 1 if the model before that step is one of the last but the very last, else 0."""
        return int(step - 1 > self.steps - self.count)

    def of(self, ring: Ring, state: State) -> State:
        """Returns the state with the mean as its model.

        Guarantees:
            Right within an ulp and 2^-11 of itself, for weights that keep to the bound.

        Cost:
            One truncation of all weights and biases.
        """
        means = self.of_shares(ring, flat(state.beside[TOTAL]), flat(state.model))
        return replace(state, model=pairs(means))

    def of_shares(self, ring: Ring, total: Sequence[Share], last: Sequence[Share]) -> list[Share]:
        """Returns the means of weights and biases, with what `of` says.

        Args:
            ring: the host.
            total: the sums of those iterates, but for the very last.
            last: the very last one.
        """
        sums = [(so_far + one) * self.numerator for so_far, one in zip(total, last, strict=True)]
        return ring.truncate([(each, self.shift) for each in sums])
