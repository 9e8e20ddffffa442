"""What installed distributions offer under an entry point group, loaded quietly."""

import functools
import importlib.metadata
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from extensions.errors import ArgumentError


@functools.cache
def offered(group: str) -> dict[str, importlib.metadata.EntryPoint]:
    """Returns the entry points of a group by name; nothing is imported."""
    return {point.name: point for point in importlib.metadata.entry_points(group=group)}


def check_offered(group: str, argument: str, name: str) -> None:
    """Returns only if some installed distribution offers the name.

    Raises:
        ArgumentError: none does; `argument` is what it is called there.
    """
    if name not in offered(group):
        raise ArgumentError(
            argument, name, f"one of {sorted(offered(group))}", "Install pea-mpl with pip."
        )


def load(group: str, argument: str, name: str) -> Any:
    """Returns what the entry point of that name leads to.

    Raises:
        ArgumentError: of `check_offered`.
        MissingExtraError: what it builds on is not installed; the message has the pip command.
    """
    check_offered(group, argument, name)
    with _quiet_unless_it_fails():
        return offered(group)[name].load()


@contextmanager
def _quiet_unless_it_fails() -> Iterator[None]:
    """Keeps what hosts print while they are imported, and shows it only if that fails."""
    sys.stderr.flush()
    shown = os.dup(2)
    with tempfile.TemporaryFile() as kept:
        os.dup2(kept.fileno(), 2)
        try:
            yield
        except BaseException:
            kept.seek(0)
            os.write(shown, kept.read())
            raise
        finally:
            sys.stderr.flush()
            os.dup2(shown, 2)
            os.close(shown)
