"""What a user types, in a process that has TensorFlow already."""

import contextlib
import io
from collections.abc import Iterator

from tests.helpers import examples
from tests.helpers.commands import pea
from tests.helpers.tfe_tasks.session import CONFIG

import tf_encrypted as tfe


def typed(arguments: list[str]) -> tuple[int, str, str]:
    """Returns the status of `pea`, and what it printed to standard output and error."""
    with _own_session():
        done = pea(*arguments)
    return done.returncode, done.stdout, done.stderr


def executed(code: str) -> str:
    """Returns what a programme prints."""
    printed = io.StringIO()
    with _own_session(), contextlib.redirect_stdout(printed):
        exec(compile(code, "<block>", "exec"), {"__name__": "__main__"})
    return printed.getvalue()


def examples_without(page: str) -> list[str]:
    """Returns the names of a page of the API whose docstrings show no example."""
    return [name for name in examples.pages()[page] if not examples.example(name).examples]


def failing_examples(page: str) -> str:
    """Returns what went wrong in a page's examples."""
    with _own_session():
        return examples.failures(page)


@contextlib.contextmanager
def _own_session() -> Iterator[None]:
    """Inside the block there may be another session than that of the other tasks."""
    protocol = tfe.get_protocol()
    try:
        yield
    finally:
        tfe.set_config(CONFIG)
        tfe.set_protocol(protocol)
