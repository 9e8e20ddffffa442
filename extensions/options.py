"""How a field of a dataclass is given as an option, and which options are paths to write."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Option:
    """Annotates a field whose option is not of the field's own name, type and description.

    Attributes:
        name: of the option, without hyphens in front; by default the field's, with hyphens.
        help: of the option; by default what the class's docstring says of the field.
        parse: what makes the field's value of the text that is given.
        negated: whether the option is a flag that makes a field False, which else is True.
    """

    name: str | None = None
    help: str | None = None
    parse: Callable[[str], Any] | None = None
    negated: bool = False


@dataclass(frozen=True, kw_only=True)
class Writes:
    """Annotates a path that a command writes: a field, or a parameter that Typer reads.

    Attributes:
        inside: of a folder the names of the files that are written in it, as patterns; empty: the
            path is a file.
    """

    inside: tuple[str, ...] = ()
