"""Small programs that a user may write: those that must be refused, and those that must run."""

from collections.abc import Callable

Program = Callable[[], None]


class Corpus(list[Program]):
    """Programs in the order in which they stand; as a decorator it enters one."""

    def __call__(self, function: Program) -> Program:
        """Enters a program."""
        self.append(function)
        return function
