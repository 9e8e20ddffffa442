"""The arguments of an optimizer, which are attributes too: a training, by Keras's names."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from extensions.errors import ArgumentError
from extensions.protocols.settings import ScriptTraining

FIELDS = {
    "learning_rate": "lr",
    "l2_norm_clip": "max_grad_norm",
    "beta_1": "beta1",
    "beta_2": "beta2",
    "floor": "adam_floor",
    "epsilon": "eps",
}
"""Of a training by an argument, where Keras calls it otherwise."""
_ARGUMENTS = {field: argument for argument, field in FIELDS.items()}


def argument_of(field: str) -> str:
    """Returns what Keras calls a field of a training."""
    return _ARGUMENTS.get(field, field)


def training_of(
    arguments: Mapping[str, Any], known: ScriptTraining | None = None
) -> ScriptTraining:
    """Returns the training that arguments by Keras's names say, or to which they change one."""
    named = {FIELDS.get(name, name): value for name, value in arguments.items()}
    try:
        return replace(known, **named) if known else ScriptTraining.of(named)
    except ArgumentError as error:
        raise error.of(argument_of(error.argument)) from None


class Argument:
    """An attribute that is an argument of an optimizer, and stays as it is."""

    def __init__(self, name: str = "") -> None:
        self._name = name

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
