"""Commands whose options are the fields of dataclasses.

Name, type and default of an option are the field's, and its help is what the docstring of the class
says of it under `Attributes:`; `extensions.options.Option` annotates exceptions.
"""

import collections.abc
import functools
import inspect
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import typer

from extensions.cli.config_file import CONFIG, ConfigFile
from extensions.cli.outputs import check_outputs
from extensions.errors import ArgumentError
from extensions.options import Option, Writes

Command = Callable[..., Any]


@dataclass(frozen=True)
class Options:
    """Annotates a command's parameter whose dataclass holds options.

    Attributes:
        title: of these options in the help; by default they have none of their own.
        without: names of fields that are no options here.
    """

    title: str | None = None
    without: Collection[str] = ()


def with_options(command: Command) -> Command:
    """Returns the command as Typer reads it: with an option for each field of its dataclasses.

    It also has `--config`, a file of options, whose path it may take as parameter `config_file`.
    Its attribute `aliases` has the name of the option of each field that is one.

    A parameter of type `X | None` is None unless the fields of X that have no default are given.

    Raises:
        ArgumentError: when called with other options of such an X, but without those; or as
            `check_outputs`, before anything else is done.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, _Group] = {}
    shown: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        group = _group_of(hints[name])
        if group is None:
            keyword = inspect.Parameter.KEYWORD_ONLY
            shown.append(parameter.replace(annotation=hints[name], kind=keyword))
        else:
            groups[name] = group
            shown += [leaf.parameter for leaf in group.leaves()]

    if CONFIG not in {parameter.name for parameter in shown}:
        keyword = inspect.Parameter.KEYWORD_ONLY
        shown.append(inspect.Parameter(CONFIG, keyword, default=None, annotation=ConfigFile))

    @functools.wraps(command)
    def called(**given: Any) -> Any:
        check_outputs(shown, given)
        own = {name: given[name] for name in hints if name in given and name not in groups}
        return command(**own, **{name: group.make(given) for name, group in groups.items()})

    leaves = [leaf for group in groups.values() for leaf in group.leaves()]
    called.aliases = {leaf.field.name: leaf.name for leaf in leaves}  # type: ignore[attr-defined]
    called.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    called.__annotations__ = {each.name: each.annotation for each in shown}
    return called


@dataclass(frozen=True)
class _Leaf:
    """A field that is an option.

    Attributes:
        field: of the dataclass.
        option: how it is given.
        kind: its type.
        help: what it means.
        optional: whether it may be left out although it has no default.
        title: of the options that it is shown with.
        writes: whether it is a path that is written, and how.
    """

    field: Field[Any]
    option: Option
    kind: Any
    help: str
    optional: bool
    title: str | None
    writes: tuple[Writes, ...]

    @property
    def flag(self) -> str:
        return self.option.name or self.field.name.replace("_", "-")

    @property
    def name(self) -> str:
        """Name of the option as a parameter."""
        return self.flag.replace("-", "_")

    @property
    def required(self) -> bool:
        return self.field.default is MISSING and self.field.default_factory is MISSING

    @property
    def default(self) -> Any:
        """What an option that is not given has as its value."""
        if self.option.negated:
            return False
        told = self.option.parse is None and self.field.default not in (MISSING, ())
        return self.field.default if told else None

    @property
    def parameter(self) -> inspect.Parameter:
        """What Typer reads."""
        text = self.help[:1].upper() + self.help[1:]
        either = self.default is None and bool in get_args(self.kind)
        flags = f"--{self.flag}/--no-{self.flag}" if either else f"--{self.flag}"
        option = typer.Option(flags, help=text, rich_help_panel=self.title)
        kind = str if self.option.parse else _read_as(self.kind)
        demanded = self.required and not self.optional
        if self.default is None and not demanded:
            kind = Union[kind, None]  # noqa: UP007 - made at run time
        return inspect.Parameter(
            self.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if demanded else self.default,
            annotation=Annotated[kind, option, *self.writes],
        )

    def value(self, given: Any) -> Any:
        """Returns the field's value of the option's."""
        if self.option.negated:
            return not given
        return self.option.parse(given) if self.option.parse else given


@dataclass(frozen=True)
class _Group:
    """A dataclass whose fields are options.

    Attributes:
        kind: the dataclass.
        optional: whether there may be none.
        shown: which of them, and how.
    """

    kind: type
    optional: bool
    shown: Options

    def members(self) -> Iterator["tuple[str, _Leaf | _Group]"]:
        """Yields the fields that are options, and those that are dataclasses of options."""
        hints = get_type_hints(self.kind, include_extras=True)
        told = _descriptions(self.kind)
        for field in fields(self.kind):
            if field.name in self.shown.without:
                continue
            inner = _group_of(hints[field.name])
            if inner is not None:
                title = inner.shown.title or self.shown.title
                shown = Options(title, (*inner.shown.without, *self.shown.without))
                optional = self.optional or inner.optional
                yield field.name, replace(inner, optional=optional, shown=shown)
                continue
            kind, *marks = _unwrapped(hints[field.name])
            option = next((mark for mark in marks if isinstance(mark, Option)), Option())
            text = option.help or told.get(field.name, "")
            writes = tuple(mark for mark in marks if isinstance(mark, Writes))
            title = self.shown.title
            yield field.name, _Leaf(field, option, kind, text, self.optional, title, writes)

    def leaves(self) -> Iterator[_Leaf]:
        """Yields the options."""
        for _, member in self.members():
            yield from member.leaves() if isinstance(member, _Group) else (member,)

    def make(self, given: Mapping[str, Any]) -> Any:
        """Returns an instance, of what is given of all options."""
        if self.optional and self._left_out(given):
            return None
        values = {}
        for name, member in self.members():
            if isinstance(member, _Group):
                values[name] = member.make(given)
            elif given[member.name] is not None:
                values[name] = member.value(given[member.name])
        return self.kind(**values)

    def _left_out(self, given: Mapping[str, Any]) -> bool:
        """Whether an option without a default is missing; raises if others then have no use."""
        missing = [leaf for leaf in self.leaves() if leaf.required and given[leaf.name] is None]
        for leaf in self.leaves() if missing else ():
            if given[leaf.name] != leaf.default:
                allowed = f"given with --{missing[0].flag} {missing[0].field.name.upper()}"
                raise ArgumentError(leaf.name, given[leaf.name], allowed)
        return bool(missing)


def _group_of(hint: Any) -> _Group | None:
    """Returns the options that a command's parameter of that type stands for, if it does."""
    kind, *marks = _unwrapped(hint)
    inner = [each for each in get_args(kind) if each is not NoneType] if _is_union(kind) else []
    optional = len(inner) == 1
    if optional:
        (kind,) = inner
    if not (isinstance(kind, type) and is_dataclass(kind)):
        return None
    shown = next((mark for mark in marks if isinstance(mark, Options)), Options())
    return _Group(kind, optional, shown)


def _descriptions(kind: type) -> dict[str, str]:
    """Returns what the docstrings of a class and its bases say of its attributes."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        text = inspect.cleandoc(base.__doc__ or "")
        section = re.search(r"^Attributes:\n((?: .*\n|\n)+)", f"{text}\n", re.MULTILINE)
        entries = re.findall(
            r"^ {4}(\w+): (.*(?:\n {5,}.*)*)", section[1] if section else "", re.MULTILINE
        )
        found |= {name: " ".join(text.split()) for name, text in entries}
    return found


def _unwrapped(hint: Any) -> tuple[Any, ...]:
    """Returns a type and its annotations."""
    return get_args(hint) if get_origin(hint) is Annotated else (hint,)


def _is_union(kind: Any) -> bool:
    return get_origin(kind) in (Union, UnionType)


def _read_as(kind: Any) -> Any:
    """Returns the type that Typer reads: which texts are allowed is checked by the dataclass."""
    if get_origin(kind) is Literal:
        return str
    if get_origin(kind) is collections.abc.Sequence:
        return list[get_args(kind)]  # type: ignore[misc]
    if _is_union(kind):
        return Union[tuple(_read_as(each) for each in get_args(kind))]  # noqa: UP007
    return kind
