"""A command of the benchmarks, run in this process."""

import io
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass

from benchmarks.__main__ import Benchmarks


@dataclass(frozen=True)
class Done:
    """What came of a command.

    Attributes:
        output: what it printed.
        exit_code: 0, or 1 if it raised.
        exception: that it raised, or None.
    """

    output: str
    exit_code: int
    exception: Exception | None


def benchmark(*words: object) -> Done:
    """Runs a command of the benchmarks."""
    printed = io.StringIO()
    try:
        with redirect_stdout(printed), redirect_stderr(printed):
            Benchmarks.call("benchmarks", *words)
    except Exception as error:
        return Done(printed.getvalue(), 1, error)
    return Done(printed.getvalue(), 0, None)
