"""Small programs that a user may write: those that must be refused, and those that must run."""

from collections.abc import Callable
from typing import Any

Program = Callable[[], None]


class Corpus(list[Program]):
    """Programs in the order in which they stand; as a decorator it enters one."""

    def __call__(self, function: Program) -> Program:
        """Enters a program."""
        self.append(function)
        return function

    def each(self, subject: str, run: Callable[[Any], object], **ways: Any) -> None:
        """Enters a program for each way, named by the subject, if there is one, and the way."""
        for name, way in ways.items():

            def one(way: Any = way) -> None:
                run(way)

            one.__name__ = f"{subject}_{name}".lstrip("_")
            self(one)


def alone(program: Program) -> None:
    """Runs a program that is one expression."""
    program()


def as_it_is(tensor: Any) -> Any:
    """Returns the tensor."""
    return tensor
