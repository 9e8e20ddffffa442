"""Whatever a command refuses is one line: the argument, its value, the range, and what to type."""

import difflib
import inspect
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup

from extensions.cli.config_file import TYPED
from extensions.errors import ArgumentError

_UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""Of the parser, which Typer offers under no public name."""

INTERRUPTED = 130
"""Status of a command that Ctrl-C ended."""

_KINDS = {int: ("a whole number", "N"), float: ("a number", "X"), Path: ("a path", "PATH")}
_NUMBERS = ("N", "X")
_TEXT = ("a text", "TEXT")
_NO = ("false", "no", "off", "0", "f", "n")
"""Values that somebody types behind a flag that is not meant."""
_OPTIONS = {"parties": "world_size", "learning_rate": "lr"}
"""Parameters under which a command may have what is known by another name."""
_RECORDS = ("data", "data_for_party", "records")
_SAID_BY = {
    **dict.fromkeys(("records", "labels", "columns"), _RECORDS),
    "federation": ("file",),
    "name": ("add",),
    "clients of a round": ("clients", "client_fraction"),
}
"""Parameters that say, where they are given, what no parameter has as its name."""
_PLACE = re.compile(r", (?:line|record|row|column) \w")
"""In a value that says where in a file something is wrong: the file is mended, nothing typed."""


class TypingError(ArgumentError):
    """What was typed is no option, no value of its type, or is not there."""

    def __init__(self, argument: str, allowed: str, advice: str) -> None:
        super().__init__(argument, "", allowed, advice)

    def __str__(self) -> str:
        return f"{self.argument}: must be {self.rule}. {self.hint}"


class Command(TyperCommand):
    """A command that refuses in one line, with what to type instead.

    Guarantees:
        No option that takes one value is given twice, nor has one an empty value, or one that
        begins with two hyphens: these are typing errors that Typer takes for what was meant.
    """

    def get_params(self, ctx: Any) -> list[Any]:
        """Returns the parameters, as help shows them."""
        return flags_alone(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Reads the options.

        Raises:
            ArgumentError: of the file of --config.
            TypingError: there is no such option, or one lacks its value, has two, or one of
                another type.
        """
        if ctx.resilient_parsing:  # to complete what is being typed
            return super().parse_args(ctx, args)
        given: dict[str, Any] = {}
        left: list[str] = []
        try:
            given, left, order = self.make_parser(ctx).parse_args(args=list(args))
            if not given.get("help"):
                self._check(given, Counter(order))
            ctx.meta[TYPED] = given
            return super().parse_args(ctx, [*args])  # it takes them out
        except _UsageError as error:
            raise self._refusal(error, ctx, given, left, args) from error
        except ArgumentError as error:
            raise self._advised(error, ctx) from error.__cause__

    def invoke(self, ctx: Any) -> Any:
        """Runs the command.

        Raises:
            ArgumentError: of the command, with what to type if it did not say it.
            Exit: the user ended it.
        """
        try:
            return super().invoke(ctx)
        except ArgumentError as error:
            raise self._advised(error, ctx) from error.__cause__
        except KeyboardInterrupt as error:
            notes = getattr(error, "__notes__", ["Nothing is kept."])
            typer.echo(" ".join(["pea: interrupted.", *notes]), err=True)
            raise typer.Exit(INTERRUPTED) from error

    def _check(self, given: Mapping[str, Any], times: Mapping[Any, int]) -> None:
        for parameter in self.params:
            flag, word = parameter.opts[0], self._words(parameter)[1]
            value = given.get(parameter.name)
            values = value if isinstance(value, list) else [value]
            for one in values:
                if isinstance(one, str) and (not one.strip() or one.startswith("--")):
                    what = f"{flag} {one}" if one.strip() else f"{flag} {one!r}"
                    raise TypingError(what, "given with a value", f"Type: {flag} {word}.")
            if times.get(parameter, 0) > 1 and not isinstance(value, list):
                shown = flag if isinstance(value, bool) else f"{flag} {value}"
                raise TypingError(flag, "given once", f"Type: {shown}, or what you meant, once.")

    def _refusal(
        self,
        error: Any,
        ctx: Any,
        given: Mapping[str, Any],
        left: Sequence[str],
        args: Sequence[str],
    ) -> ArgumentError:
        """Returns what the parser refuses, in our words."""
        see = f"`{ctx.command_path} --help` lists them."
        if (parameter := getattr(error, "param", None)) is not None:
            return self._of_value(parameter, ctx, given)
        flag = getattr(error, "option_name", None)
        if flag is not None:
            parameter = next((one for one in self.params if flag in one.opts), None)
            if parameter is None:
                near = getattr(error, "possibilities", None)
                advice = f"Type: {sorted(near)[0]}; {see}" if near else see[0] + see[1:]
                return TypingError(flag, f"an option of `{ctx.command_path}`", advice)
            if _is_flag(parameter):
                return _flag_with_value(next(word for word in args if word.startswith(f"{flag}=")))
            word = self._words(parameter)[1]
            return TypingError(flag, "given with a value", f"Type: {flag} {word}.")
        extra = left[0] if left else str(error)
        flags = {name for one in self.params if _is_flag(one) for name in one.opts}
        for name, word in pairwise(args):
            if name in flags and word == extra:
                return _flag_with_value(f"{name} {word}")
        return TypingError(
            repr(extra), f"left out: it belongs to no option of `{ctx.command_path}`", see
        )

    def _of_value(self, parameter: Any, ctx: Any, given: Mapping[str, Any]) -> ArgumentError:
        kind, _ = self._words(parameter)
        source, value = "", given.get(parameter.name)
        if value is None:
            value = (ctx.default_map or {}).get(parameter.name)
            source = "in the file of --config, " if value is not None else ""
        advice = self._advice(parameter, value, kind)
        if value is None:
            return TypingError(parameter.opts[0], "given", advice)
        return TypingError(f"{parameter.name} = {value!r}", source + kind, advice)

    def _advised(self, error: ArgumentError, ctx: Any) -> ArgumentError:
        """Returns the error with what to type, if it does not say it."""
        said = any(mark in str(error) for mark in ("--", "`pea", "Type: "))
        said = said or _PLACE.search(str(error.value)) is not None
        if said or type(error) is not ArgumentError:
            return error
        argument = error.argument
        aliases = getattr(self.callback, "aliases", {})
        names = [name.partition("[")[0] for name in argument.split(", ")]
        known = [{name, aliases.get(name), _OPTIONS.get(name)} for name in names]
        meant = [each for own in known for each in self.params if own & _names(each)]
        if len(meant) == 1:
            advice = self._advice(meant[0], error.value, str(error.rule))
            argument = meant[0].name if argument in _OPTIONS else argument
        else:
            advice = self._look(meant, argument, ctx)
        advice = f"{error.hint} {advice}".strip()
        told = ArgumentError(argument, error.value, error.rule, advice, code=error.code)
        return told.with_traceback(error.__traceback__)

    def _look(self, meant: Sequence[Any], argument: str, ctx: Any) -> str:
        """Returns where to look, of what no option alone says; nothing if that is unknown."""
        if not meant:
            said = _SAID_BY.get(argument, ())
            meant = [each for each in self.params if each.name in said and _is_given(each, ctx)]
        return f"Look at {' and '.join(each.opts[0] for each in meant)}." if meant else ""

    def _advice(self, parameter: Any, value: Any, allowed: str) -> str:
        """Returns what to type instead of a value."""
        if parameter.param_type_name == "argument":
            return f"Type: {parameter.name.upper()}."
        flag, default = parameter.opts[0], parameter.default
        if allowed.startswith("left out"):
            return f"Leave {flag} out."
        word = self._words(parameter)[1]
        if (example := _example(allowed, value, number=word in _NUMBERS)) is not None:
            return f"Type: {flag} {example}."
        if _is_flag(parameter):
            return f"Leave {flag} out." if value else f"Type: {flag}."
        if default not in (None, "", value):
            return f"Type: {flag} {default}, the default."
        return f"Type: {flag} {word}."

    def _words(self, parameter: Any) -> tuple[str, str]:
        """Returns what a value of the parameter is, and the word for one."""
        signature = inspect.signature(self.callback).parameters if self.callback else {}
        kind = signature[parameter.name].annotation if parameter.name in signature else str
        if get_origin(kind) is Annotated:
            kind = get_args(kind)[0]
        if parameter.metavar:
            return _TEXT[0], parameter.metavar
        for one in (kind, *get_args(kind)):
            if one is not NoneType and one in _KINDS:
                return _KINDS[one]
        return _TEXT


@contextmanager
def refused_by_group(group: TyperGroup, ctx: Any, name: str = "") -> Iterator[None]:
    """Tells in one line what is no option, or no command, of a group of commands.

    Raises:
        TypingError: it is told so.
    """
    try:
        yield
    except _UsageError as error:
        see = f"Type: {ctx.command_path} --help"
        flag = getattr(error, "option_name", None)
        if flag is not None or name.startswith("-"):
            allowed = f"an option of `{ctx.command_path}` itself"
            raise TypingError(
                flag or name, allowed, "Options follow the command's name."
            ) from error
        known = group.list_commands(ctx)
        near = difflib.get_close_matches(name, known, n=1)
        advice = f"Type: {ctx.command_path} {near[0]}" if near else see
        raise TypingError(repr(name), f"one of {', '.join(known)}", f"{advice}.") from error


def _example(allowed: str, value: Any, *, number: bool) -> str | None:
    """Returns a value out of the words for what is allowed: the nearest name, or least number.

    Args:
        allowed: these words.
        value: that is not.
        number: whether it is a number that is typed.
    """
    if allowed.startswith("one of "):
        names = [name.strip(" '()[]") for name in allowed.removeprefix("one of ").split(",")]
        if all(re.fullmatch(r"[\w.:-]+", name) for name in names):
            return [*difflib.get_close_matches(str(value), names, n=1), *names][0]
    least = re.match(r"(?:in|at least) (-?\d+)(?:$|[.,]{2}|,? )", allowed)
    return least[1] if number and least is not None else None


def flags_alone(parameters: list[Any]) -> list[Any]:
    """Returns parameters of which help shows no type for flags, since these take no value."""
    for each in parameters:
        if _is_flag(each):
            each.metavar = ""
    return parameters


def _flag_with_value(typed: str) -> TypingError:
    """Returns what is to be typed instead of a flag with a value behind it."""
    flag, value = re.split("[= ]", typed, maxsplit=1)
    advice = f"Leave {flag} out." if value.lower() in _NO else f"Type: {flag}."
    return TypingError(typed, "given without a value", advice)


def _names(parameter: Any) -> set[str]:
    return {parameter.name, *(flag.lstrip("-").replace("-", "_") for flag in parameter.opts)}


def _is_given(parameter: Any, ctx: Any) -> bool:
    return ctx.params.get(parameter.name) not in (None, [], ())


def _is_flag(parameter: Any) -> bool:
    return bool(getattr(parameter, "is_flag", False))
