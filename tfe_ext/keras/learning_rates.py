"""Learning rates as Keras has them: numbers to which callbacks assign, and schedules of steps."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import tensorflow as tf
from tf_keras.optimizers import schedules

from extensions.errors import ArgumentError
from extensions.protocols.settings import RATE
from tfe_ext.keras.settings import Setting
from tfe_ext.streams.devices import HERE


class LearningRate(float):
    """The learning rate that an optimizer has now, in the place of a variable of Keras."""

    dtype = tf.float64

    def __new__(cls, optimizer: Any, value: float) -> Self:
        """Returns the number, which knows its optimizer."""
        rate = super().__new__(cls, value)
        rate._optimizer = optimizer
        return rate

    _optimizer: Any

    def assign(self, value: Any) -> None:
        """Gives the optimizer another learning rate, which holds from the next step on."""
        self._optimizer.learning_rate = float(value)

    def numpy(self) -> float:
        """Returns the number."""
        return float(self)


class RateSetting(Setting):
    """The learning rate as an attribute, which a schedule does not leave to others."""

    def __get__(self, optimizer: Any, owner: type) -> Any:
        value = super().__get__(optimizer, owner)
        return value if optimizer is None else LearningRate(optimizer, value)

    def __set__(self, optimizer: Any, value: Any) -> None:
        if optimizer.schedule is not None:
            raise ArgumentError(
                "learning_rate",
                value,
                "with the schedule that the optimizer was made with",
                "Make it with a number if callbacks are to change it.",
                code="conflict",
            )
        super().__set__(optimizer, value)


class Schedule:
    """The learning rate of each step, from 0, as a schedule of Keras says it."""

    def __init__(self, function: schedules.LearningRateSchedule) -> None:
        self._function = function

    def at(self, step: int) -> float:
        """Returns the rate of a step."""
        return self.rates(step, 1)[0]

    def rates(self, first: int, count: int) -> Sequence[float]:
        """Returns the rates of so many steps, all of them positive."""
        with tf.device(HERE):
            found = [
                float(self._function(tf.constant(i, tf.int64))) for i in range(first, first + count)
            ]
        for step, rate in enumerate(found, first):
            try:
                RATE.check("learning_rate", rate)
            except ArgumentError as error:
                error.add_note(f"The schedule gives it for step {step}, which would cost privacy.")
                raise
        return found

    def config(self) -> dict[str, Any]:
        """Returns Keras's configuration of the schedule."""
        config: dict[str, Any] = schedules.serialize(self._function)
        return config


def rate_of(given: Any) -> tuple[float, Schedule | None]:
    """Returns the learning rate of the first step, and the schedule if there is one."""
    if isinstance(given, Mapping):
        given = schedules.deserialize(dict(given))
    if isinstance(given, schedules.LearningRateSchedule):
        schedule = Schedule(given)
        return schedule.at(0), schedule
    if isinstance(given, int | float | np.number) and not isinstance(given, bool):
        return float(given), None
    allowed = "a number or a tf_keras.optimizers.schedules.LearningRateSchedule"
    raise ArgumentError("learning_rate", type(given).__name__, allowed, code="type")
