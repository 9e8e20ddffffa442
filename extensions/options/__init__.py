"""How a field of a dataclass, or a parameter of a command, is given as an option."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Option:
    """Annotates what is not an option of its own name, type and description.

    Attributes:
        name: of the option, without hyphens in front; by default the field's, with hyphens.
        help: of the option; by default what the class's docstring says of the field.
        parse: what makes the field's value of the text that is given.
        negated: whether the option is a flag that makes a field False, which else is True.
        alias: the name by which errors know the field, where that is another one.
    """

    name: str | None = None
    help: str | None = None
    parse: Callable[[str], Any] | None = None
    negated: bool = False
    alias: str | None = None


@dataclass(frozen=True)
class Options:
    """Annotates a command's parameter whose dataclass holds options.

    Attributes:
        title: of these options in the help; by default they have none of their own.
    """

    title: str | None = None
    without: Collection[str] = ()


@dataclass(frozen=True)
class Kinds:
    """Annotates what is one of several objects: the option takes a name of one.

    Arguments of that object are options, too: ``--masked.threshold`` of ``--aggregator masked``.
    The field's value is an `extensions.options.kinds.Chosen`.

    Attributes:
        of: from names to classes, as ``module:Class``, which are imported when one is chosen.
        usual: name of the one that there is by default; None: it must be given.
        without: names of arguments that are no options.
    """

    of: Mapping[str, str]
    usual: str | None = None
    without: Collection[str] = ()


@dataclass(frozen=True, kw_only=True)
class Writes:
    """Annotates a path that a command writes.

    Attributes:
        inside: of a folder the names of the files that are written in it, as patterns; empty: the
            path is a file.
    """

    inside: tuple[str, ...] = ()
