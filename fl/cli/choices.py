"""Options that belong to one choice of another option, and errors that name the option."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from extensions.errors import ArgumentError
from extensions.rules import one_of


def arguments_of(
    option: str, owners: Mapping[str, Collection[str]], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the options that were given and that belong to the choice.

    Args:
        option: that makes the choice.
        owners: from each choice to the options that belong to it.
        options: all, by name; None or False: not given.

    Raises:
        ArgumentError: there is no such choice, or an option belongs to others.
    """
    chosen = options[option]
    if chosen not in owners:
        raise ArgumentError(option, chosen, one_of(owners))
    given = {
        name: options[name]
        for name in dict.fromkeys(name for names in owners.values() for name in names)
        if options[name] is not None and options[name] is not False
    }
    for name, value in given.items():
        if name not in owners[chosen]:
            others = [f"{{{option}={one}}}" for one, names in owners.items() if name in names]
            rule, hint = f"with {{{option}={chosen}}}", f"It belongs to {' or '.join(others)}."
            raise ArgumentError(name, value, rule, hint, code="conflict")
    return given


@contextmanager
def as_options(**names: str) -> Iterator[None]:
    """Renames the argument of an ArgumentError raised in the block to the option that sets it."""
    try:
        yield
    except ArgumentError as error:
        if error.argument not in names:
            raise
        raise error.of(names[error.argument]) from error
