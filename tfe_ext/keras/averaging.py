"""The mean of a training's last iterates, which becomes the model: a callback of Keras."""

import itertools
from collections.abc import Mapping
from typing import Any

from tf_keras.callbacks import Callback

from extensions.errors import ArgumentError
from extensions.protocols.optimizer import TOTAL, Mean
from extensions.protocols.settings import AVERAGE
from tfe_ext.graphs.programs import Program
from tfe_ext.keras.steps.step import store
from tfe_ext.ring.aby3_ring import ABY3Ring
from tfe_ext.ring.private_tensors import share_of
from tfe_ext.ring.shares import Share


class MeanOfIterates(Callback):
    """After `Sequential.fit` the model is the mean of its last iterates.

        model.fit(x, y, steps=25, callbacks=[tfe_ext.keras.MeanOfIterates(0.4)])

    `Checkpoints` keep the sum so far, wherever they stand among the callbacks.

    Args:
        average: part of the steps, in 0..1, the last of which count; the very last one always does.

    Guarantees:
        Nothing is opened, and the mean costs no epsilon: steps pay for every iterate. It is right
        within an ulp and 2^-11 of itself for weights within the optimizer's max_weight_norm, which
        nothing proves of a linear model; larger ones may spoil it, and reveal nothing. A training
        that a callback ends early has the mean of those iterates that it reached.

    Cost:
        Local operations in each step; at the end a truncation of all weights, and one round that
        stores them.

    Raises:
        ArgumentError: a part out of range.
    """

    def __init__(self, average: float) -> None:
        super().__init__()
        AVERAGE.check("average", average)
        self.average = average
        self._made = self._counted = 0

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        """Begins with no iterate, or with those that a checkpoint has.

        Raises:
            ArgumentError: a training goes on that should have counted some, and did not.
        """
        self._made = self.params["initial_step"]
        self._mean = self._mean_of(self.params["steps"], self.average)
        self._counted = sum(map(self._mean.counts, range(1, self._made + 1)))
        if not self._counted:
            self.model.beside.drop(TOTAL)
        elif TOTAL not in self.model.beside:
            raise ArgumentError(
                "initial_step",
                self._made,
                f"at most {self._made - self._counted} without checkpoints of those iterates",
                "Their mean is not known otherwise.",
                code="range",
            )
        if self._mean.count > 1:
            self._total = self.model.beside.of(TOTAL)
            self._count = Program(self._add)
            self._count.trace()

    def on_train_batch_begin(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Counts the model before a step, if it is one of the last."""
        self._made += 1
        if self._mean.counts(self._made):
            self._count()
            self._counted += 1

    def on_train_end(self, logs: Mapping[str, Any] | None = None) -> None:
        """The mean takes the place of the model."""
        if self._counted:
            self._mean = self._mean_of(self._counted + 1, 1.0)
            Program(self._finish)()
            self.model.beside.drop(TOTAL)

    def _mean_of(self, steps: int, average: float) -> Mean:
        largest = self.model.optimizer.max_weight_norm
        return Mean.over(average, steps, self._ring.frac_bits, largest)

    @property
    def _ring(self) -> ABY3Ring:
        ring: ABY3Ring = self.model.chain.flat[0].prot.ring
        return ring

    def _present(self) -> list[Share]:
        return [share_of(self._ring, variable) for variable in self.model.chain.flat]

    def _add(self) -> None:
        for total, share in zip(self._total, self._present(), strict=True):
            total.assign(total.read() + share)

    def _finish(self) -> None:
        trained = self.model.chain.trained
        totals = [total.read() for total in itertools.compress(self._total, trained)]
        present = [*itertools.compress(self._present(), trained)]
        means = self._mean.of_shares(self._ring, totals, present)
        store(self._ring, [*itertools.compress(self.model.chain.flat, trained)], means)
