"""Errors that name the option."""

from collections.abc import Iterator
from contextlib import contextmanager

from extensions.errors import ArgumentError


@contextmanager
def as_options(**names: str) -> Iterator[None]:
    """Renames the argument of an ArgumentError raised in the block to the option that sets it."""
    try:
        yield
    except ArgumentError as error:
        if error.argument not in names:
            raise
        raise error.of(names[error.argument]) from error
