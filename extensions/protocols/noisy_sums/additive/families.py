"""What an additive model's scores mean: classes, or a number.

Either says how many scores a record has, the bound C of its residuals, and their variance over the
slope of their mean (dispersion).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from extensions.ring.fixed_point import Reals

LEAST_SHARE = 0.04
"""Of a class, over the number of classes, that its start is reckoned with at least."""


@dataclass(frozen=True)
class Classes:
    """Probabilities of classes: of two by a logistic function of one score, else by softmax.

    Attributes:
        weights: of the classes, in (0, 1]; residuals are multiplied by them.
        softmax: whether of two classes logits are halves, as softmax takes them.
    """

    weights: Sequence[float]
    softmax: bool = False
    bound: ClassVar[float] = 1.0
    dispersion: ClassVar[float] = 1.0

    @property
    def outputs(self) -> int:
        """One for two classes."""
        return 1 if len(self.weights) == 2 else len(self.weights)

    def residuals(self, scores: Reals, targets: Reals) -> Reals:
        """Returns targets less probabilities."""
        if self.outputs == 1:
            return targets[:, 1:] - 0.5 * (1.0 + np.tanh(0.5 * scores))
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        rest: Reals = targets - powers / powers.sum(axis=1, keepdims=True)
        return rest

    def begin(self, totals: Reals, records: float) -> tuple[Reals, Reals, Reals]:
        """Returns intercept, slope and the residual that the intercept takes away, (outputs,) each.

        They are those of the classes' shares, as the weights count them.

        Args:
            totals: noisy sums of the residuals of scores of zero, (outputs,).
            records: number of all records.
        """
        weights, number = np.array(self.weights), len(self.weights)
        sums = np.array([-totals[0], totals[0]]) if self.outputs == 1 else totals
        whole = max((records - (sums / weights).sum()) * number / (1.0 / weights).sum(), 1.0)
        shares = np.maximum(sums / whole + 1.0 / number, LEAST_SHARE / number)
        shares /= shares.sum()
        part = whole / records
        slope, taken = part * shares * (1.0 - shares), part * (shares - 1.0 / number)
        if self.outputs == 1:
            return np.log(shares[1:] / shares[:1]), slope[1:], taken[1:]
        return np.log(shares), slope, taken

    def logits(self, scores: Reals) -> Reals:
        """Returns scores of all classes, of which two are each other's negative."""
        if self.outputs > 1:
            return scores
        half = 0.5 if self.softmax else 1.0
        return half * np.concatenate([-scores, scores])

    def shift(self) -> Reals:
        """Returns what takes the weights out of the intercept again: probabilities are right."""
        logs = -np.log(self.weights)
        half = 1.0 if self.softmax or self.outputs > 1 else 2.0
        shift: Reals = half * (logs - logs.mean())
        return shift


@dataclass(frozen=True)
class Numbers:
    """A number in 0..1, of which the middle and the deviation are about known.

    Residuals are cut to half a deviation, so that few of them decide nothing.
    """

    middle: float
    deviation: float
    outputs: ClassVar[int] = 1
    bound: ClassVar[float] = 0.5
    dispersion: ClassVar[float] = 1.0 / 16.0

    def residuals(self, scores: Reals, targets: Reals) -> Reals:
        """Returns targets, in deviations from the middle, less scores."""
        rest: Reals = (targets - self.middle) / self.deviation - scores
        return rest

    def begin(self, totals: Reals, records: float) -> tuple[Reals, Reals, Reals]:
        """Returns the mean residual; the slope of a squared error is 1."""
        return totals / records, np.ones(1), np.zeros(1)

    def logits(self, scores: Reals) -> Reals:
        """Returns scores in units of the target."""
        return self.deviation * scores

    def shift(self) -> Reals:
        """Returns the middle, less that of a model of zeros (`losses.middle`)."""
        return np.array([self.middle - 0.5])


Family = Classes | Numbers
