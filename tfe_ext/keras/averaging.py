"""The mean of a training's last iterates, which becomes the model: a callback of Keras."""

from collections.abc import Mapping
from typing import Any

from tf_keras.callbacks import Callback

from extensions.errors import ArgumentError
from extensions.protocols.optimizer import TOTAL, Mean
from extensions.protocols.settings import AVERAGE
from tfe_ext.graphs.program import Program


class MeanOfIterates(Callback):
    """Replaces the model by the mean of its last iterates at the end of `Sequential.fit`.

        model.fit(x, y, steps=25, callbacks=[tfe_ext.keras.MeanOfIterates(0.4)])

    `Checkpoints` keep the sum so far, wherever they stand among the callbacks.

    Args:
        average: fraction of the steps, in 0..1; its last iterates count, the final one always.

    Guarantees:
        The mean costs 0 epsilon, because the steps pay for every iterate, and opens nothing. It is
        right within an ulp and 2^-11 of itself for weights within the optimizer's max_weight_norm.
        A linear model's weights may exceed that, which can spoil the mean but reveals nothing. If a
        callback ends the training early, the mean is of the iterates so far.

    Cost:
        Local operations in each step; at the end a truncation of all weights, and one round that
        stores them.

    Examples:
        >>> model = tfe_ext.keras.Sequential([Dense(3, batch_input_shape=[1, 4])])
        >>> model.compile(tfe_ext.keras.SGD(1.0), tfe_ext.keras.BinaryCrossentropy())
        >>> mean = tfe_ext.keras.MeanOfIterates(0.5)
        >>> history = model.fit(x, y, steps=2, verbose=False, callbacks=[mean])
    """

    def __init__(self, average: float) -> None:
        super().__init__()
        AVERAGE.check("average", average)
        self.average = average
        self._made = self._counted = 0

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        """Begins with no iterate, or with those that a checkpoint has and must have."""
        self._made = self.params["initial_step"]
        self._mean = self._mean_of(self.params["steps"], self.average)
        self._counted = self._mean.counted(self._made)
        store = self.model.optimizer_state
        if not self._counted:
            store.drop(TOTAL)
        elif TOTAL not in store:
            raise ArgumentError(
                "initial_step",
                self._made,
                f"at most {self._made - self._counted} without checkpoints of those iterates",
                "Otherwise their mean is unknown.",
                code="range",
            )
        if self._mean.count > 1:
            store.of(TOTAL)
            self._count = Program(lambda: self._mean.add(store))
            self._count.trace()

    def on_train_batch_begin(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Counts the model before a step, if it is one of the last."""
        self._made += 1
        if self._mean.counts(self._made):
            self._count()
            self._counted += 1

    def on_train_end(self, logs: Mapping[str, Any] | None = None) -> None:
        """Makes the mean the model."""
        if self._counted:
            mean, store = self._mean_of(self._counted + 1, 1.0), self.model.optimizer_state
            Program(lambda: mean.finish(self.model.ring, store))()
            store.drop(TOTAL)

    def _mean_of(self, steps: int, average: float) -> Mean:
        largest = self.model.optimizer.max_weight_norm
        return Mean.over(average, steps, self.model.ring.frac_bits, largest)
