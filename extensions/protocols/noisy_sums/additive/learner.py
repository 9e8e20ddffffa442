"""An additive model from noisy sums: what every party computes of them alike, in the clear.

Scores are an intercept and a shape for each column, which has a value for each bin. A round opens
the sums u_f = T_f (residuals by bin) of all columns at once (module `basis` beside this one). With
theta_f the coefficients of the shape T_f^T theta_f, H_f = T_f diag(v counts) T_f^T the slope of
u_f, and G_f that of module `smoother`,

    theta_f  <-  theta_f + eta (G_f (u_f + H_f theta_f) - theta_f),

and the model is the mean of the iterates of the last 70 % of the rounds, of weight t. Where columns
repeat each other they overshoot together, and the next step leads back. If it takes back more than
half of the one before, in the norm of H and without what noise makes of them, eta is halved.

All of it is a function of what was opened and of public numbers.
"""

import math
from collections.abc import Sequence

import numpy as np

from extensions.protocols.noisy_sums.additive.basis import (
    INTERCEPT,
    MATRIX_BITS,
    Basis,
    sensitivity,
)
from extensions.protocols.noisy_sums.additive.bins import Bins
from extensions.protocols.noisy_sums.additive.families import Family
from extensions.protocols.noisy_sums.additive.smoother import SCALES, Shape, smooth
from extensions.ring.fixed_point import Reals

AVERAGED = 0.7
"""Part of the rounds, the last ones, whose iterates' mean is the model."""
_ALWAYS, _EVERY = 6, 5
"""Smoothers are found in each of the first rounds, and in every fifth."""
_MOST_STEP = 0.6
_BACK = 0.5
"""Part of a step, noise left out of it, that the next one takes back where steps are too long."""
_LIKELY_MEAN = 0.3
"""Of residuals of a model of zeros: what they say of the intercept is shrunk as noise asks."""


class Learner:
    """A model, and all that its next round depends on.

    Args:
        bins: of each column.
        bases: of each column.
        family: what scores mean.
        records: number of all records, or about that.
        steps: number of rounds T.
        eta: step of a round.
        noise: deviation of the noise of each opened number, of all parties, over `reach`.

    Attributes:
        reach: how far a residual of norm C moves all opened numbers at most.
        intercept: (outputs,).
        values: shape of each column, (outputs, bins).
    """

    def __init__(
        self,
        bins: Sequence[Bins],
        bases: Sequence[Basis],
        family: Family,
        *,
        records: float,
        steps: int,
        eta: float,
        noise: float,
    ) -> None:
        self.bases, self.family, self.reach = bases, family, sensitivity(bases)
        self._records, self._steps, self._eta = max(records, 1.0), steps, eta
        self._deviation = family.bound * noise * self.reach
        self._shapes = [
            [
                Shape.of(own, basis, family.dispersion)
                for own, basis in zip(bins, bases, strict=True)
            ]
            for _ in range(family.outputs)
        ]
        self._ends = np.cumsum([1, *(len(basis.matrix) for basis in bases)])
        self._made, self._weight = 0, 0.0
        self._moves = [one.theta for own in self._shapes for one in own]
        self._length = 0.0
        self._moved: Reals = np.zeros(family.outputs)
        self._slope = np.ones(family.outputs)
        self._prior = np.full(len(SCALES), 1.0 / len(SCALES))
        self.intercept = np.zeros(family.outputs)
        self.values = self._values()
        self._sums = [np.zeros_like(self.intercept), *map(np.zeros_like, self.values)]

    def _values(self) -> list[Reals]:
        return [
            np.stack([each.values() for each in own]) for own in zip(*self._shapes, strict=True)
        ]

    def update(self, opened: Reals) -> None:
        """Takes the sums of one round over C, (outputs, 1 + rows of all bases)."""
        opened = self.family.bound * opened
        weight = INTERCEPT / 2**MATRIX_BITS
        totals, noise = opened[:, 0] / weight, (self._deviation / weight) ** 2
        sums = [np.split(own, self._ends)[1:-1] for own in opened]
        if self._made == 0:
            likely = (_LIKELY_MEAN * self._records) ** 2
            totals = totals * likely / (likely + noise)
            self.intercept, self._slope, taken = self.family.begin(totals, self._records)
            for own, slope, part, each in zip(sums, self._slope, taken, self._shapes, strict=True):
                for place, shape in enumerate(each):
                    own[place] = own[place] - shape.matrix @ (shape.counts * part)
                    shape.slope = slope * shape.slope
        else:
            curve, step = self._records * self._slope, min(2.0 * self._eta, _MOST_STEP)
            spread = curve * (curve + self.family.dispersion) + noise / self._steps
            wanted = curve * (totals + curve * self._moved) / spread
            change: Reals = step * (wanted - self._moved)
            self._moved, self.intercept = self._moved + change, self.intercept + change
        self._move(sums)
        self._made += 1
        self.values = self._values()
        weight, parts = self._weight_of(self._made), [self.intercept, *self.values]
        self._sums = [a + weight * b for a, b in zip(self._sums, parts, strict=True)]
        self._weight += weight

    def _weight_of(self, made: int) -> float:
        return float(made) if made > self._steps * (1.0 - AVERAGED) else 0.0

    def _move(self, sums: Sequence[Sequence[Reals]]) -> None:
        pairs = [
            (shape, own + shape.slope @ shape.theta)
            for shapes, of_output in zip(self._shapes, sums, strict=True)
            for shape, own in zip(shapes, of_output, strict=True)
        ]
        made, noise = self._made, self._deviation**2
        gain = 2.0 / (made + 2.0)
        for shape, target in pairs:
            shape.mean = shape.mean + gain * (target - shape.mean)
            shape.variance = (1.0 - gain) ** 2 * shape.variance + gain**2 * noise
        if made < _ALWAYS or made % _EVERY == 0:
            later = noise * self._steps / (made + 1) ** 2
            self._prior = smooth([shape for shape, _ in pairs], self._prior, later)
        moves, length, along, floor = [], 0.0, 0.0, 1e-9
        for (shape, target), before in zip(pairs, self._moves, strict=True):
            smoother = shape.smoother
            move = smoother @ target - shape.theta
            length += float(move @ shape.slope @ move)
            along += float(move @ shape.slope @ before)
            floor += float(np.trace(smoother.T @ shape.slope @ smoother)) * noise
            moves.append(move)
        if self._length > floor and along + self._eta * floor < -_BACK * self._length:
            self._eta /= 2.0
        self._moves, self._length = moves, length - floor
        for (shape, _), move in zip(pairs, moves, strict=True):
            shape.theta = shape.theta + self._eta * move

    def mean(self) -> tuple[Reals, list[Reals]]:
        """Returns intercept and shapes of the mean of iterates; shapes have mean 0 over records."""
        intercept, *shapes = [each / max(self._weight, 1.0) for each in self._sums]
        centred = []
        for own, shape in zip(shapes, self._shapes[0], strict=True):
            middle = own @ shape.counts / self._records
            intercept = intercept + middle
            centred.append(own - middle[:, None])
        return intercept, centred

    def deviations(self) -> list[Reals]:
        """Returns how far noise alone moves each value, (outputs, bins) of each column.

        That of a column beside which there is no other: sqrt(c sigma^2 T^T G G^T T), where c is
        what the mean has of all rounds' noise. All numbers in it are public.
        """
        weights = [self._weight_of(made) for made in range(self._steps, 0, -1)]
        kept, part = 0.0, 0.0
        for weight in weights:
            part = (1.0 - self._eta) * part + self._eta * weight
            kept += part * part
        scale = math.sqrt(kept) * self._deviation / max(sum(weights), 1.0)
        return [
            np.stack(
                [scale * np.linalg.norm(one.smoother.T @ one.matrix, axis=0) for one in column]
            )
            for column in zip(*self._shapes, strict=True)
        ]
