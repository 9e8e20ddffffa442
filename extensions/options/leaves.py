"""Options of a command: its parameters, and the fields of those that are dataclasses.

Name, type and default of an option are the field's, and its help is what the docstring of the class
says of it under `Attributes:`; `extensions.options.Option` annotates exceptions, and gives the help
of a parameter. A parameter before a ``/`` in the signature is typed without a name.
"""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from functools import cached_property
from keyword import iskeyword
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from extensions.errors import ArgumentError
from extensions.options import Kinds, Option, Options, Writes
from extensions.rules import Rule, one_of

F = TypeVar("F", bound=Callable[..., Any])
_WORDS = {int: "N", float: "X", Path: "PATH"}
_NUMBERS = {int: "a whole number", float: "a number"}


class TypingError(ArgumentError):
    """What was typed is no option, no value of its type, or is not there."""


@dataclass(frozen=True)
class Typed:
    """What a command was given in any way; a parameter of this type is no option.

    Attributes:
        options: values of JSON by the names of the options.
        config: the file of --config, or None.
        report: what the report of --again says; empty without one.
    """

    options: Mapping[str, Any]
    config: Path | None
    report: Mapping[str, Any]


def shows(*names: str, example: str) -> Callable[[F], F]:
    """Says which options a command's help shows; --help-all shows all of them."""

    def noted(function: F) -> F:
        function.shown, function.example = names, example  # type: ignore[attr-defined]
        return function

    return noted


@dataclass(frozen=True)
class Leaf:
    """One option.

    Attributes:
        kind: its type, without None.
        default: its value where it is not given; MISSING if it must be.
        title: of the options that it is shown with.
        writes: how it is written if it is a path of something that is; else None.
        positional: whether it is typed without a name.
        optional: whether it may be left out although it has no default.
        either: whether it may be None, so that a flag has a negative.
        kinds: what it chooses from, if its value is one of several objects.
    """

    name: str
    kind: Any
    default: Any
    option: Option
    help: str
    title: str | None = None
    writes: Writes | None = None
    rule: Rule | None = None
    positional: bool = False
    optional: bool = False
    either: bool = False
    kinds: Kinds | None = None

    @cached_property
    def word(self) -> str:
        """Name of the option, without hyphens in front."""
        return self.option.name or self.name.replace("_", "-")

    @property
    def key(self) -> str:
        """Name of the option as a parameter."""
        key = self.word.replace("-", "_").replace(".", "__")
        return f"{key}_" if iskeyword(key) else key

    @property
    def names(self) -> set[str | None]:
        """Names by which errors know it."""
        return {self.name, self.key, self.option.alias}

    @property
    def typed(self) -> str:
        """How it is typed."""
        return self.key.upper() if self.positional else f"--{self.word}"

    def typed_with(self, value: str | None) -> str:
        """Returns how it is typed with a value; None: without one."""
        if self.is_flag:
            no = value == "False" and not self.option.negated
            return f"--no-{self.word}" if no else self.typed
        return self.typed if value is None else f"{self.typed} {value}"

    @property
    def is_flag(self) -> bool:
        """Whether it is typed without a value."""
        return self.kind is bool

    @property
    def repeats(self) -> bool:
        """Whether it may be typed several times."""
        many = get_origin(self.kind) in (list, Sequence, tuple)
        return many and self.option.parse is None

    @property
    def required(self) -> bool:
        """Whether it has no default."""
        return self.default is MISSING

    @property
    def word_for_value(self) -> str:
        """What stands for a value in the help."""
        kind = next(iter(get_args(self.kind)), str) if self.repeats else self.kind
        return _WORDS.get(kind, "TEXT")

    @property
    def told(self) -> Any:
        """Default that help shows; None: there is none to be shown."""
        hidden = self.option.parse or self.is_flag or self.default in (MISSING, (), None)
        return None if hidden else self.default

    def shown_default(self, _: Any) -> Any:
        """Returns the default for help, which cyclopts would read off texts."""
        return self.told

    def read(self, given: Any, source: str = "") -> Any:
        """Returns the value of the texts that are given.

        Args:
            given: a text, or texts of one that repeats; True or False of a flag.
            source: file in which it stands; "": it was typed.
        """
        if isinstance(given, list):
            return [self.read(one, source) for one in given]
        kind = next(iter(get_args(self.kind)), str) if self.repeats else self.kind
        if self.option.parse or isinstance(given, bool) or kind not in (int, float, Path):
            return given
        try:
            return kind(given)
        except ValueError as error:
            hint = f"It stands in {source}." if source else ""
            raise TypingError(
                self.name, given, _NUMBERS[kind], hint, code="not-a-number"
            ) from error

    def value(self, read: Any) -> Any:
        """Returns the field's value of what was read."""
        if self.option.negated:
            return not read
        made = self.option.parse(read) if self.option.parse else read
        if self.rule is not None:
            for one in made if self.repeats else [made]:
                self.rule.check(self.name, one)
        return made


@dataclass(frozen=True)
class Group:
    """A dataclass whose fields are options."""

    kind: type
    optional: bool
    shown: Options

    @cached_property
    def members(self) -> "list[tuple[str, Leaf | Group]]":
        """The fields that are options, and those that are dataclasses of options."""
        hints = get_type_hints(self.kind, include_extras=True)
        told, found = descriptions(self.kind), list[tuple[str, Leaf | Group]]()
        for field in fields(self.kind):
            if field.name in self.shown.without:
                continue
            hint, title = hints[field.name], self.shown.title
            if (inner := group_of(hint)) is not None:
                without = (*inner.shown.without, *self.shown.without)
                shown = Options(inner.shown.title or title, without)
                optional = self.optional or inner.optional
                found.append((field.name, replace(inner, optional=optional, shown=shown)))
                continue
            default = None if field.default_factory is not MISSING else field.default
            leaf = leaf_of(field.name, hint, default, told.get(field.name, ""))
            leaf = replace(leaf, title=title, optional=self.optional)
            found.append((field.name, leaf))
        return found

    def leaves(self) -> Iterator[Leaf]:
        """Yields the options."""
        for _, member in self.members:
            yield from member.leaves() if isinstance(member, Group) else (member,)

    def make(self, given: Mapping[str, Any]) -> Any:
        """Returns an instance, of the values that are given of all options."""
        missing = [leaf for leaf in self.leaves() if leaf.required and leaf.key not in given]
        if self.optional and missing:
            for leaf in self.leaves():
                if leaf.key in given and given[leaf.key] != leaf.default:
                    rule = f"{{{missing[0].name}}}"
                    raise ArgumentError(leaf.name, given[leaf.key], rule, code="needs")
            return None
        values = {}
        for name, member in self.members:
            if isinstance(member, Group):
                values[name] = member.make(given)
            elif member.key in given:
                values[name] = given[member.key]
        return self.kind(**values)


def group_of(hint: Any) -> Group | None:
    """Returns the options that a parameter or field of that type stands for, if it does."""
    kind, optional, marks = unwrapped(hint)
    one_of_several = any(isinstance(mark, Kinds) for mark in marks)
    if one_of_several or not (isinstance(kind, type) and is_dataclass(kind)):
        return None
    shown = next((mark for mark in marks if isinstance(mark, Options)), Options())
    return Group(kind, optional, shown)


def leaf_of(name: str, hint: Any, default: Any, told: str = "") -> Leaf:
    """Returns a field or parameter that is one option."""
    kind, either, marks = unwrapped(hint)

    def mark(of: Any) -> Any:
        return next((each for each in marks if isinstance(each, of)), None)

    option = mark(Option) or Option()
    text = option.help or told
    text = text[:1].upper() + text[1:]
    rule = mark(Rule) or (one_of(kind) if get_origin(kind) is Literal else None)
    leaf = Leaf(name, kind, default, option, text, None, mark(Writes), rule, either=either)
    if (kinds := mark(Kinds)) is not None:
        leaf = replace(leaf, kind=str, default=kinds.usual, rule=one_of(kinds.of), kinds=kinds)
    return leaf


def unwrapped(hint: Any) -> tuple[Any, bool, list[Any]]:
    """Returns a type without None, whether it had None, and its annotations."""
    kind, *marks = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    if get_origin(kind) not in (Union, UnionType):
        return kind, False, marks
    inner = [each for each in get_args(kind) if each is not NoneType]
    if len(inner) < len(get_args(kind)) and get_origin(inner[0]) is Annotated:
        first, _, more = unwrapped(inner[0])
        return first, True, [*marks, *more]
    return inner[0], len(inner) < len(get_args(kind)), marks


def descriptions(kind: type) -> dict[str, str]:
    """Returns what the docstrings of a class and its bases say of its attributes and arguments."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        text = inspect.cleandoc(base.__doc__ or "")
        for title in ("Attributes", "Args"):
            section = re.search(rf"^{title}:\n((?: .*\n|\n)+)", f"{text}\n", re.MULTILINE)
            entries = re.findall(
                r"^ {4}(\w+): (.*(?:\n {5,}.*)*)", section[1] if section else "", re.MULTILINE
            )
            found |= {name: " ".join(text.split()) for name, text in entries}
    return found
