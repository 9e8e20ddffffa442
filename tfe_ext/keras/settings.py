"""The arguments of an optimizer, which are attributes too: a training, by Keras's names."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import tensorflow as tf
from tf_keras.optimizers import schedules

from extensions.errors import ArgumentError
from extensions.protocols.settings import RATE, ScriptTraining
from tfe_ext.streams.devices import HERE

FIELDS = {
    "learning_rate": "lr",
    "l2_norm_clip": "max_grad_norm",
    "beta_1": "beta1",
    "beta_2": "beta2",
    "floor": "adam_floor",
    "epsilon": "eps",
}
"""Of a training by an argument, where Keras calls it otherwise."""
ARGUMENTS = {field: argument for argument, field in FIELDS.items()}
"""Likewise of an argument by a field."""


def training_of(
    arguments: Mapping[str, Any], known: ScriptTraining | None = None
) -> ScriptTraining:
    """Returns the training that arguments by Keras's names say, or to which they change one."""
    named = {FIELDS.get(name, name): value for name, value in arguments.items()}
    try:
        return replace(known, **named) if known else ScriptTraining.of(named)
    except ArgumentError as error:
        raise error.of(ARGUMENTS.get(error.argument, error.argument)) from None


class Argument:
    """An attribute that is an argument of an optimizer, and stays as it is."""

    _name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = self._name or name

    def __get__(self, optimizer: Any, owner: type) -> Any:
        if optimizer is None:
            return self
        return getattr(optimizer.settings, FIELDS.get(self._name, self._name))


class Setting(Argument):
    """One that can be set; the value holds from the next step on."""

    def __set__(self, optimizer: Any, value: Any) -> None:
        optimizer.settings = training_of({self._name: value}, optimizer.settings)


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
                "because the optimizer was made with a schedule",
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
