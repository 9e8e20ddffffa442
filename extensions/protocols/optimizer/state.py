"""What a training goes on from, in shares by name: the model, and what its optimizer keeps."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from extensions.errors import ArgumentError
from extensions.layers.passes import Parameters
from extensions.protocols.dpsgd import Sums
from extensions.protocols.host import Host
from extensions.protocols.settings import Training
from extensions.protocols.updates import VELOCITY, rule_for
from extensions.ring.fixed_point import SAFE_BITS, Integers
from extensions.ring.interface import Ring, Share

MODEL = "model"
PREVIOUS = "previous"
"""The model before the last step."""
TOTAL = "total"
"""The sum of earlier iterates whose mean is taken, that of the model itself not included."""

MEAN_BITS = 10
"""The mean's divisor is right within 2^-MEAN_BITS / 2 of itself, and mostly much closer."""
_MOST_BITS = 30


class Store(Protocol):
    """Shares by name, each a weight and a bias of every layer: all that steps ask of a host.

    Names are `MODEL`, `TOTAL`, and those of the optimizer's rule.
    """

    def read(self, name: str) -> Sums:
        """Returns the shares of a name, zeros at first; None may stand for what is frozen."""

    def write(self, changed: Mapping[str, Sums]) -> None:
        """Puts shares in the place of those before, all at once; what is None stays."""


class State:
    """Shares of what a run needs to go on: a `Store` of values.

    The velocity, what the last step took from the model, is the difference of two models: hosts
    that store shares in a form of their own (`tfe_ext.run.host`) have both in that form already.

    Args:
        beside: by name `PREVIOUS`, `TOTAL` and what the optimizer's rule keeps, each as large as
            the model; in the order in which hosts and checkpoints keep them.
    """

    def __init__(self, model: Parameters, beside: Mapping[str, Parameters] | None = None) -> None:
        self._shares = {MODEL: model, **(beside or {})}

    @classmethod
    def begin(cls, host: Host, config: Training, model: Parameters) -> "State":
        """Returns the state before the first step; local."""
        names = _beside(config)
        if not names:
            return cls(model)

        def begun(name: str, part: Integers) -> Integers:  # which may be elsewhere
            return part if name == PREVIOUS else np.zeros(tuple(part.shape), dtype=np.int64)

        summands = [
            [*own, *(begun(name, part) for name in names for part in own)]
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
        return cls(parts, {name: [] for name in _beside(config)}).like(parts)

    def like(self, parts: Parameters) -> "State":
        """Returns the state whose `parts` these are, in place of its own."""
        layers = len(parts) // len(self._shares)
        model, *rest = [parts[i : i + layers] for i in range(0, len(parts), layers)]
        return State(model, dict(zip([*self._shares][1:], rest, strict=True)))

    @property
    def model(self) -> Parameters:
        """Weight and bias of each layer."""
        return self._shares[MODEL]

    @property
    def parts(self) -> Parameters:
        """All of it as weights and biases in turn, as hosts and checkpoints keep them."""
        return [pair for part in self._shares.values() for pair in part]

    def __contains__(self, name: str) -> bool:
        return name in self._shares

    def read(self, name: str) -> Sums:
        """Returns the shares of a name; local."""
        if name == VELOCITY:
            velocity: Sums = _each(self._shares[PREVIOUS], self.model, lambda was, now: was - now)
            return velocity
        return self._shares[name]

    def write(self, changed: Mapping[str, Sums]) -> None:
        """Puts shares in the place of those before; local."""
        before = self.model
        for name in changed.keys() - {VELOCITY}:
            self._shares[name] = _each(self._shares[name], changed[name], lambda _, new: new)
        if VELOCITY in changed:
            self._shares[PREVIOUS] = before


def move(store: Store, updates: Sums, kept: Mapping[str, Sums]) -> None:
    """Makes a step by what an optimizer's rule returned (`UpdateRule.after`); local."""
    moved = _each(store.read(MODEL), updates, lambda own, change: own - change)
    store.write({MODEL: moved, **kept})


def _each(own: Sums, others: Sums, change: Callable[[Any, Any], Share]) -> Any:
    """Returns weights and biases, changed where there is one of either."""
    return [
        tuple(
            part if part is None or other is None else change(part, other)
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
    """Returns of how many of the last iterates the mean is taken; at least of the very last."""
    return max(1, round(average * steps))


@dataclass(frozen=True)
class Mean:
    """The mean of the last `count` iterates of a run: 1 / count is numerator / 2^shift."""

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
            largest: bound of a weight's magnitude in all of them.
        """
        count = iterates(average, steps)
        reach = np.log2(max(largest, 1.0) * 1.001)
        shift = min(_MOST_BITS, SAFE_BITS - 1 - frac_bits - int(np.ceil(reach)))
        if count > 1 and shift < MEAN_BITS + np.log2(count):
            raise ArgumentError(
                "average",
                average,
                f"0, because weights may reach {largest:.3g} in steps of this size",
                "Lower the learning rate, the number of steps, or frac_bits.",
            )
        return cls(count, steps, round(2.0 ** max(shift, 0) / count), shift)

    def counts(self, step: int) -> int:
        """Returns 1 if the model before that step is one of the last but the very last, else 0."""
        return int(step - 1 > self.steps - self.count)

    def counted(self, made: int) -> int:
        """Returns how many of the models before the first so many steps are in the mean."""
        return sum(map(self.counts, range(1, made + 1))) if self.count > 1 else 0

    def add(self, store: Store, counted: Any = 1) -> None:
        """Adds the present model, times 1 or 0 (`counts`), to the sum of the mean; local."""
        total, model = store.read(TOTAL), store.read(MODEL)
        added = _each(total, model, lambda so_far, part: so_far + part * counted)
        store.write({TOTAL: added})

    def finish(self, ring: Ring, store: Store) -> None:
        """Puts the mean in the place of the model; one truncation of all weights and biases.

        It is right within an ulp and 2^-11 of itself, for weights that keep to the bound.
        """
        total, model = store.read(TOTAL), store.read(MODEL)
        sums = _each(total, model, lambda so_far, last: (so_far + last) * self.numerator)
        items = [(part, self.shift) for pair in sums for part in pair if part is not None]
        means = iter(ring.truncate(items))
        store.write({MODEL: _each(sums, sums, lambda *_: next(means))})
