"""The mean of a script's last iterates, which becomes the model: this party's shares of it."""

from collections.abc import Mapping
from typing import Any

import torch

from crypten_ext.nn.named_shares import from_arrays, to_arrays
from crypten_ext.ring.crypten_ring import CrypTenRing
from extensions.errors import ArgumentError, GradientError
from extensions.privacy.ledger import GO_ON
from extensions.protocols.optimizer import Mean
from extensions.protocols.settings import ScriptTraining
from extensions.ring.fixed_point import Integers

_PREFIX = "sum of iterates of "


class Averaging:
    """The mean of a training's last iterates (`extensions.protocols.optimizer.Mean`).

    Args:
        model: encrypted.
        settings: of the training; the mean is exact for weights below their `max_weight_norm`.

    Raises:
        ArgumentError: a part of steps whose number nobody knows.
    """

    def __init__(self, model: Any, settings: ScriptTraining) -> None:
        self.average = settings.average
        if self.average and settings.steps is None:
            advice = "It says which iterates are the last."
            raise ArgumentError("steps", None, "with {average}", advice, code="missing")
        self.steps = settings.steps or 0
        self._model = model
        self._largest = settings.max_weight_norm
        self._total: dict[str, torch.Tensor] = {}

    def check(self, ring: CrypTenRing, made: int) -> None:
        """Returns only if a step may follow on so many.

        Raises:
            ArgumentError: too few bits of the ring are left for the mean.
            GradientError: it was the last, or the sum of those that count is lacking.
        """
        if not self.average:
            return
        if made >= self.steps:
            raise GradientError(
                f"All steps = {self.steps} are made, and the model is the mean of its last "
                f"iterates. Make another optimizer to train it further, and {GO_ON}"
            )
        mean = self._mean(ring)
        if any(map(mean.counts, range(1, made + 1))) and not self._total:
            raise GradientError(
                f"The sum of the iterates before step {made + 1} is lacking. Load the shares that "
                "the optimizer had then, or begin anew."
            )

    def before(self, ring: CrypTenRing, made: int) -> None:
        """Counts the present model, after so many steps, if it is one of the last; local."""
        if self.average and self._mean(ring).counts(made + 1):
            for name, parameter in self._model.named_parameters():
                if not parameter.requires_grad:
                    continue
                share = parameter.share
                self._total[name] = self._total[name] + share if name in self._total else share

    def after(self, ring: CrypTenRing, made: int) -> None:
        """Puts the mean in the model's place after the last step; one truncation then."""
        if made != self.steps or not self._total:
            return
        named = self._model.named_parameters()
        parameters = {name: each for name, each in named if name in self._total}
        last = [parameter.share for parameter in parameters.values()]
        totals = [self._total.pop(name) for name in parameters]
        means = self._mean(ring).of_shares(ring, totals, last)
        for parameter, share in zip(parameters.values(), means, strict=True):
            parameter.share = share

    def _mean(self, ring: CrypTenRing) -> Mean:
        return Mean.over(self.average, self.steps, ring.frac_bits, self._largest)

    def shares(self) -> dict[str, Integers]:
        """Returns this party's shares of the sum so far, by names of their own; secret."""
        return to_arrays(_PREFIX, self._total)

    def load_shares(self, shares: Mapping[str, Integers]) -> None:
        """Those that `shares` returned are the sum; others of the mapping are left alone."""
        self._total = from_arrays(_PREFIX, shares)
