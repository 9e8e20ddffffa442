"""What a user types, in a process that has TensorFlow already."""

import contextlib
import io

from tests.helpers.commands import pea


def typed(arguments: list[str]) -> tuple[int, str, str]:
    """Returns the status of `pea`, and what it printed to standard output and error."""
    done = pea(*arguments)
    return done.returncode, done.stdout, done.stderr


def executed(code: str) -> str:
    """Returns what a programme prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "<block>", "exec"), {"__name__": "__main__"})
    return printed.getvalue()
