"""One call of `Sequential.fit`: its epochs and steps, counts in between, and its callbacks."""

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tf_keras import callbacks as keras

from extensions.errors import ArgumentError
from extensions.privacy.accounting import Ledger
from extensions.rules import Whole
from tfe_ext.keras.trainer import Count, Training

_UNFIT: dict[type, str] = {
    keras.ModelCheckpoint: "It writes weights in the clear: use tfe_ext.keras.Checkpoints.",
    keras.BackupAndRestore: "It writes weights in the clear: use tfe_ext.keras.Checkpoints.",
    keras.TensorBoard: "It reads Keras's own models: use CSVLogger.",
}


@dataclass(frozen=True, kw_only=True)
class Epochs:
    """Which steps of a training make which epoch: as many as take a record once on average.

    Of all steps the first `initial_step` were made before.
    """

    steps: int
    initial_step: int
    sample_rate: float

    def __post_init__(self) -> None:
        Whole(0, self.steps).check("initial_step", self.initial_step)

    @functools.cached_property
    def ends(self) -> list[int]:
        """The number of steps that are made at the end of each epoch."""
        ends = [0]
        while ends[-1] < self.steps:
            ends.append(min(self.steps, round(len(ends) / self.sample_rate)))
        return ends[1:]

    def __iter__(self) -> Iterator[tuple[int, int, range]]:
        """Yields each epoch that is not over: its number, its first step, and those to be made."""
        first = 0
        for epoch, end in enumerate(self.ends):
            if end > self.initial_step:
                yield epoch, first, range(max(first, self.initial_step), end)
            first = end


@dataclass(frozen=True)
class Validation:
    """Counts of correct predictions at the ends of epochs, if there is a count.

    The frequency is of epochs with a count, or their numbers, beginning with 1.
    """

    count: Count | None
    frequency: int | Sequence[int] = 1

    def __post_init__(self) -> None:
        one = self.frequency
        if min([one] if isinstance(one, int) else one, default=1) < 1:
            allowed = "at least 1, or numbers of epochs from 1"
            raise ArgumentError("validation_freq", one, allowed, code="range")

    def due(self, epoch: int) -> Count | None:
        """Returns what is counted at the end of an epoch, numbered from 0, if anything."""
        if isinstance(self.frequency, int):
            return self.count if (epoch + 1) % self.frequency == 0 else None
        return self.count if epoch + 1 in self.frequency else None


class Fitting:
    """A call of `fit`: steps and counts in epochs, of which callbacks are told.

    At the end of an epoch they are told ``epsilon`` of everything so far, at ``delta``; what this
    call took, ``rounds`` and ``bytes``, which a server sent and received on the average of the
    three, and ``largest``, those of the server that sent and received most; how many of the bytes
    rows beyond the expected samples take, ``padding``, in proportion to all rows; ``lr`` of the
    last step; with counts ``val_accuracy``, and ``val_epsilon``, which all counts so far cost a
    record that is held out. At the end of a step: ``step``, the number of steps made, rounds,
    bytes, largest and padding.

    A callback that sets the model's `stop_training` ends the training.

    Guarantees:
        A training that a callback ends early, after anything was opened of the model, is charged as
        it was planned, steps and counts, and so is one that an error ends: when it ended may tell
        something of the records, so that fewer steps do not cost less.
    """

    def __init__(
        self, model: Any, epochs: Epochs, callbacks: Sequence[Any], validation: Validation
    ) -> None:
        for callback in callbacks:
            _check_callback(callback)
        self._model, self._epochs, self._validation = model, epochs, validation
        facts = {"epochs": len(epochs.ends), "steps": epochs.steps, "verbose": 0}
        facts["initial_step"] = epochs.initial_step
        self._callbacks = keras.CallbackList([*callbacks], add_history=True, model=model, **facts)
        self._steps = self._counts = 0
        self._padded = 0.0

    def run(self, training: Training, show: Callable[[int, int], None]) -> Any:
        """Makes the steps, and returns the `tf_keras.callbacks.History`.

        `show` is called with the number of steps made, and of all.
        """
        calls, model = self._callbacks, self._model
        model.stop_training = False
        calls.on_train_begin()
        try:
            told = self._train(training, show)
        finally:
            if model.opened:
                self._charge_the_rest(training)
        calls.on_train_end(told)
        return model.history

    def _train(self, training: Training, show: Callable[[int, int], None]) -> dict[str, Any]:
        """Makes the steps, and returns what callbacks were told of the last epoch."""
        calls, model, total = self._callbacks, self._model, self._epochs.steps
        told: dict[str, Any] = {}
        for epoch, first, steps in self._epochs:
            calls.on_epoch_begin(epoch)
            for i in steps:
                calls.on_train_batch_begin(i - first)
                training.step(total - i)
                self._steps += 1
                self._padded += training.padding
                show(i + 1, total)
                calls.on_train_batch_end(i - first, {"step": i + 1, **self._traffic()})
                if model.stop_training:
                    break
            told = {**self._counted(epoch), **self._spent(training.records), **self._traffic()}
            calls.on_epoch_end(epoch, told)
            if model.stop_training:
                break
        return told

    def _counted(self, epoch: int) -> dict[str, float]:
        count = self._validation.due(epoch)
        if count is None:
            return {}
        self._callbacks.on_test_begin()
        self._counts += 1
        found = {"accuracy": count.accuracy(self._model.announce_opening)}
        self._callbacks.on_test_end(found)
        return {f"val_{name}": value for name, value in found.items()}

    def _spent(self, records: int) -> dict[str, float]:
        optimizer, held_out = self._model.optimizer, self._model.held_out_ledger
        delta = optimizer.settings.delta or 10.0 ** -math.ceil(math.log10(10 * records))
        spent = {"lr": float(optimizer.learning_rate)}
        if optimizer.ledger is not None:
            spent |= {"epsilon": _epsilon(optimizer.ledger, delta), "delta": delta}
        if held_out.phases:
            spent |= {"val_epsilon": _epsilon(held_out, delta), "delta": delta}
        return spent

    def _traffic(self) -> dict[str, int | None]:
        step = self._model.step_cost().traffic
        total = step.plus(step, self._steps - 1)
        if self._validation.count is not None and self._counts:
            total = total.plus(self._validation.count.program.cost.traffic, self._counts)
        return {
            "rounds": total.rounds,
            "bytes": total.mean,
            "largest": total.largest,
            "padding": round((step.mean or 0) * self._padded),
        }

    def _charge_the_rest(self, training: Training) -> None:
        steps = self._epochs.steps - self._epochs.initial_step - self._steps
        if steps:
            training.charge(steps)
        due = [self._validation.due(epoch) for epoch, _, _ in self._epochs]
        planned = [count for count in due if count is not None]
        if planned[self._counts :]:
            planned[0].charge(len(planned) - self._counts)


def _epsilon(ledger: Ledger, delta: float) -> float:
    """Epsilon of the ledger, infinity where none can be told."""
    try:
        return ledger.get_epsilon(delta)
    except ArgumentError:
        return math.inf


def _check_callback(callback: Any) -> None:
    if not isinstance(callback, keras.Callback):
        allowed = "tf_keras.callbacks.Callback"
        raise ArgumentError("callbacks", type(callback).__name__, allowed, code="type")
    advice = next((text for kind, text in _UNFIT.items() if isinstance(callback, kind)), None)
    if getattr(callback, "restore_best_weights", False):
        advice = "Call self.model.save_shares(folder) in on_epoch_end; restore_best_weights opens."
    if advice is not None:
        allowed = "a callback that opens no weights"
        raise ArgumentError("callbacks", type(callback).__name__, allowed, advice)
