"""One command: its options as cyclopts reads them, and what to type instead of what is wrong."""

import difflib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import MISSING, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from cyclopts import App, Group, Parameter
from cyclopts.exceptions import (
    CycloptsError,
    MissingArgumentError,
    RepeatArgumentError,
    UnknownOptionError,
)

from extensions.cli.files import CONFIG, merged
from extensions.cli.outputs import check_outputs
from extensions.errors import ArgumentError
from extensions.options import Option
from extensions.options.kinds import all_chosen, named, with_arguments
from extensions.options.leaves import Group as Fields
from extensions.options.leaves import Leaf, Typed, TypingError, group_of, leaf_of
from extensions.sentences import sentence

_POSITIONAL = inspect.Parameter.POSITIONAL_ONLY
HELP, ALL = "--help", "--help-all"
_OWN = Parameter(consume_multiple=False, negative_iterable=(), show_env_var=False)
_CONFIG = leaf_of(
    CONFIG,
    Annotated[Path, Option(help="TOML file of these options; those on the command line win.")],
    None,
)


class Command:
    """A command of a function, whose parameters are options or dataclasses of options.

    Args:
        name: by which it is called, with its groups'.
        function: does it; its docstring is the help.

    Guarantees:
        Nothing is called before all that was typed is understood, and all that is written can be.
        No option that takes one value is given twice, nor has one an empty value, or one that
        begins with two hyphens.
    """

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.name, self.function = name, function
        self._groups: dict[str, Fields] = {}
        self._single: list[Leaf] = []
        self._typed = ""
        self._chosen: set[str] = set()
        self._own: list[Leaf] = []
        hints = get_type_hints(function, include_extras=True)
        for key, parameter in inspect.signature(function).parameters.items():
            if hints[key] is Typed:
                self._typed = key
            elif (group := group_of(hints[key])) is not None:
                self._groups[key] = group
                self._own += group.leaves()
            else:
                given = parameter.default
                leaf = leaf_of(key, hints[key], MISSING if given is parameter.empty else given)
                self._single.append(replace(leaf, positional=parameter.kind is _POSITIONAL))
                self._own.append(self._single[-1])
        self._own.append(_CONFIG)

    @cached_property
    def leaves(self) -> list[Leaf]:
        """All options, with those of all that others choose from, which are imported for it."""
        return with_arguments(self._own)

    def run(self, tokens: Sequence[str]) -> Any:
        """Reads the tokens, calls the function or shows help, and returns what the function does.

        Raises:
            TypingError: what was typed is no option, or no value of one.
            ArgumentError: of a file of options, an output or the function.
        """
        before = _before_delimiter(tokens)
        if {HELP, ALL} & {*before}:
            self.app(ALL in before).help_print([])
            return None
        texts = self._texts(list(tokens))
        merging = merged(self.leaves, texts)
        given = {
            leaf.key: leaf.read(merging.texts[leaf.key], merging.sources.get(leaf.key, ""))
            for leaf in self.leaves
            if leaf.key in merging.texts
        }
        made = {leaf.key: leaf.value(given[leaf.key]) for leaf in self.leaves if leaf.key in given}
        for leaf in self.leaves:
            if leaf.required and not leaf.optional and leaf.key not in given:
                raise TypingError(leaf.name, None, f"`{self.name}`", code="needed")
        made |= (found := all_chosen(self.leaves, made))
        self._chosen = {one.name for one in found.values()}
        check_outputs(self.leaves, given)
        arguments: dict[str, Any] = {
            leaf.name: made[leaf.key] for leaf in self._single if leaf.key in made
        }
        arguments |= {name: group.make(made) for name, group in self._groups.items()}
        if self._typed:
            options = {leaf.word: given[leaf.key] for leaf in self.leaves if leaf.key in given}
            arguments[self._typed] = Typed(options, given.get(CONFIG), merging.report)
        first = [arguments.pop(leaf.name) for leaf in self._single if leaf.positional]
        return self.function(*first, **arguments)

    def app(self, everything: bool = False) -> App:
        """Returns the application of this command.

        Args:
            everything: whether it has all options, or those that help shows.
        """
        shown = getattr(self.function, "shown", ())
        notes = [f"Example: {self.function.example}"] if shown else []  # type: ignore[attr-defined]
        if shown and not everything:
            notes.append(f"`{self.name} {ALL}` shows all options.")
        about = {"help_epilogue": "\n\n".join(notes), "default_parameter": _OWN}
        app = app_of(self.name, self.usage, inspect.getdoc(self.function), **about)
        app.default(_signed(self._parameters({*shown} if shown and not everything else None)))
        return app

    def spell(self, name: str, value: str | None = None) -> str:
        """Returns how an argument is typed, with a value or without one, as `sentence` asks."""
        leaves = self.leaves if self._chosen or "." in name else self._own
        if (leaf := named(leaves, self._chosen, name.partition("[")[0])) is None:
            return name if value is None else f"{name} = {value}"
        return leaf.typed_with(value)

    def sentence(self, error: ArgumentError) -> str:
        """Returns what an error says, with arguments as they are typed here."""
        said = sentence(error, self.spell)
        names = getattr(error.rule, "names", ())  # of ttp tfp is none: it is another word
        near = difflib.get_close_matches(str(error.value), map(str, names), 1, 0.7)
        return f"{said} Did you mean {self.spell(error.argument, near[0])}?" if near else said

    @cached_property
    def _parser(self) -> App:
        return self.app(everything=True)

    @cached_property
    def usage(self) -> str:
        """What is typed behind its name."""
        required = (one for one in self._own if one.required and not one.optional)
        words = (
            one.typed if one.positional else f"{one.typed} {one.key.rstrip('_').upper()}"
            for one in required
        )
        return " ".join([*words, "[OPTIONS]"])

    def _parameters(self, shown: set[str] | None) -> list[inspect.Parameter]:
        """Returns the options as cyclopts reads them, texts all of them.

        Args:
            shown: names of those that there are for help; None: all.
        """
        found = []
        leaves = self.leaves if shown is None else [one for one in self._own if one.word in shown]
        titles = dict.fromkeys(leaf.title for leaf in leaves)
        panels = {one: Group(one or "Options", sort_key=at) for at, one in enumerate(titles)}
        for leaf in leaves:
            mark = Parameter(
                name=None if leaf.positional else leaf.typed,
                help=leaf.help,
                group=panels[leaf.title],
                metavar="" if leaf.is_flag else leaf.word_for_value,
                negative=f"--no-{leaf.word}" if leaf.is_flag and leaf.either else (),
                show_default=leaf.told is not None and leaf.shown_default,
                converter=None if leaf.is_flag else _texts_of,
            )
            path = Path in (leaf.kind, *get_args(leaf.kind))
            kind: Any = bool if leaf.is_flag else Path if path else str
            hint: Any = Annotated[(list[kind] if leaf.repeats else kind) | None, mark]
            place = _POSITIONAL if leaf.positional else inspect.Parameter.KEYWORD_ONLY
            found.append(inspect.Parameter(leaf.key, place, default=None, annotation=hint))
        return sorted(found, key=lambda one: one.kind)

    def _texts(self, tokens: list[str]) -> dict[str, Any]:
        """Returns what was typed, by the keys of options."""
        for leaf in self.leaves:
            typed = (word for word in _before_delimiter(tokens) if leaf.is_flag)
            if any(word.startswith(f"{leaf.typed}=") for word in typed):
                raise self._flag_value(leaf)
        try:
            _, bound, _ = self._parser.parse_args(tokens, exit_on_error=False, print_error=False)
        except CycloptsError as error:
            raise self._error(error, tokens) from error
        for leaf in self.leaves:
            given = None if leaf.positional else bound.arguments.get(leaf.key)
            for text in given if isinstance(given, list) else [given]:
                if isinstance(text, str) and (not text.strip() or text.startswith("--")):
                    raise TypingError(leaf.name, text, "", code="no-value")
        return bound.arguments

    def _error(self, error: CycloptsError, tokens: list[str]) -> TypingError:
        """Returns what the parser found, in our words."""
        if isinstance(error, RepeatArgumentError):
            leaf = self._leaf(error.token.keyword or "")
            return TypingError(leaf.name, error.token.value, "", code="doubled")
        if isinstance(error, MissingArgumentError):
            return TypingError(self._leaf(error.keyword or "").name, None, "", code="no-value")
        unused = error.unused_tokens or tokens
        if isinstance(error, UnknownOptionError):
            return self.unknown(error.token.keyword or error.token.value)
        for name, word in pairwise(tokens):
            if word == unused[0] and (leaf := self._leaf(name)).is_flag and name == leaf.typed:
                return self._flag_value(leaf)
        return TypingError("", unused[0], f"`{self.name}`", code="stray")

    def unknown(self, flag: str) -> TypingError:
        """Returns the error of an option that this command does not have."""
        near = difflib.get_close_matches(flag, [leaf.typed for leaf in self.leaves], n=1)
        hint = f"Did you mean {near[0]}? " if near else ""
        hint += f"`{self.name} {ALL}` lists all options."
        return TypingError(flag, None, f"`{self.name}`", hint, code="unknown-option")

    def _flag_value(self, leaf: Leaf) -> TypingError:
        return TypingError(leaf.name, None, "", code="flag-value")

    def _leaf(self, flag: str) -> Leaf:
        """Returns the option that is typed so, or its negative."""
        words = {flag, f"--{flag.removeprefix('--no-')}"}
        return next((one for one in self.leaves if one.typed in words), self.leaves[-1])


def app_of(name: str, usage: str, told: str | None, **about: Any) -> App:
    """Returns an application as all commands and groups have it: help is asked for here."""
    about |= {"help_format": "plaintext", "help_flags": [], "version_flags": []}
    return App(name=name.split()[-1], usage=f"Usage: {name} {usage}", help=told, **about)


def _before_delimiter(tokens: Sequence[str]) -> Sequence[str]:
    """Returns the words that may be options."""
    return tokens[: tokens.index("--")] if "--" in tokens else tokens


def _texts_of(kind: Any, tokens: Sequence[Any]) -> Any:
    """Leaves texts as they are: of one option, or of one that repeats."""
    texts = [token.value for token in tokens]
    return texts if get_origin(kind) is list else texts[0]


def _signed(parameters: list[inspect.Parameter]) -> Callable[..., None]:
    """Returns a function with these parameters, which does nothing."""

    def called(*_: Any, **__: Any) -> None:
        return None

    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {one.name: one.annotation for one in parameters}
    return called
