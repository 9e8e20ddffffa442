"""Branches of a network whose results are added: residual sums, thin layers beside a frozen one.

In the chain of stages they stand one behind the other: `Fork`, the first branch, `Turn`, the
second branch, `Join`. Whoever goes through the chain has a stack for what waits meanwhile. It
serves values, and in the same way their gradients, and the bounds of both.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from extensions.errors import ArgumentError
from extensions.layers.stages.stage import Stage


class Branching(Stage, ABC):
    """A place where a chain divides, goes over to the other branch, or comes together; local."""

    @abstractmethod
    def ahead(self, value: Any, waiting: list[Any]) -> Any:
        """Returns what goes on from there on the way forth; what waits is on the stack."""

    @abstractmethod
    def back(self, value: Any, waiting: list[Any]) -> Any:
        """Returns what goes on from there on the way back."""


@dataclass(frozen=True)
class _End(Branching):
    """Where branches begin or end."""

    inputs: int

    @property
    def outputs(self) -> int:  # type: ignore[override]
        return self.inputs


class Fork(_End):
    """Both branches take what comes here; on the way back their gradients are added."""

    def ahead(self, value: Any, waiting: list[Any]) -> Any:
        """The second branch's input waits."""
        waiting.append(value)
        return value

    def back(self, value: Any, waiting: list[Any]) -> Any:
        """Returns the sum of both branches' gradients."""
        return value + waiting.pop()


@dataclass(frozen=True)
class Turn(Branching):
    """The end of the first branch, which returns `inputs`, and the beginning of the second."""

    inputs: int
    outputs: int

    def ahead(self, value: Any, waiting: list[Any]) -> Any:
        """The first branch's result waits, and the second one's input comes."""
        waited = waiting.pop()
        waiting.append(value)
        return waited

    def back(self, value: Any, waiting: list[Any]) -> Any:
        """The second branch's gradient waits, and the first one's comes."""
        return self.ahead(value, waiting)


class Join(_End):
    """The sum of what both branches return; either gets its gradient."""

    def ahead(self, value: Any, waiting: list[Any]) -> Any:
        """Returns the sum of both branches' results."""
        return value + waiting.pop()

    def back(self, value: Any, waiting: list[Any]) -> Any:
        """The first branch's gradient waits."""
        waiting.append(value)
        return value


def places(inputs: int, outputs: int) -> tuple[Fork, Turn, Join]:
    """Returns what stands before, between and behind two branches."""
    return Fork(inputs), Turn(outputs, inputs), Join(outputs)


def check_branches(stages: Iterable[Stage]) -> None:
    """Checks that branches are closed, and take and return equally many values."""
    waiting: list[int] = []
    for stage in stages:
        if isinstance(stage, Branching):
            if not isinstance(stage, Fork) and not waiting:
                raise ArgumentError("stages", f"a {type(stage).__name__} alone", "behind a Fork")
            last = isinstance(stage, Join)
            came = waiting.pop() if last else stage.ahead(stage.inputs, waiting)
            if came != stage.outputs:
                raise ArgumentError(
                    "stages",
                    f"branches of {came} and {stage.outputs} values",
                    "branches that take what comes to their Fork, and return equally many values",
                    code="shape",
                )
    if waiting:
        raise ArgumentError("stages", "a Fork without its Join", "branches that come together")
