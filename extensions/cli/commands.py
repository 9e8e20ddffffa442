"""Commands that are imported when they are called: a group's own, and those that others add.

A distribution adds one to `pea` under the entry point group ``pea.commands``, which names a
function or a group of `Commands`, and the extra that it needs if there is one:

    [project.entry-points."pea.commands"]
    players = "tfe_ext.players.command:players [tfe]"

The list of commands reads the text of its module alone. What the extra installs is imported within
the function, so that neither help nor what is refused before needs it.
"""

import ast
import difflib
import functools
import gc
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import EntryPoint
from typing import Any, ClassVar

from cyclopts import App

from extensions.cli.command import ALL, HELP, Command, app_of
from extensions.errors import MissingExtraError
from extensions.options.leaves import TypingError
from extensions.runs import entry_points

GROUP = "pea.commands"


class Commands:
    """A group of commands; the docstring of a class of them is the group's help.

    Attributes:
        own: from names to functions, as ``module:function``.
        group: of the entry points of further ones; None: there are none.
    """

    own: ClassVar[Mapping[str, str]] = {}
    group: ClassVar[str | None] = None

    @classmethod
    def points(cls) -> dict[str, EntryPoint]:
        """Returns where the commands are, the group's own first."""
        own = {name: EntryPoint(name, value, GROUP) for name, value in cls.own.items()}
        offered = {} if cls.group is None else entry_points.offered(cls.group)
        return {**own, **{name: offered[name] for name in sorted({*offered} - {*own})}}

    @classmethod
    def command(cls, name: str, tokens: Sequence[str]) -> "tuple[Command | None, list[str]]":
        """Returns the command that is typed, and what follows it; None after help was shown.

        Args:
            name: by which the group is called.
            tokens: behind it.

        Raises:
            TypingError: there is no such command.
            MissingExtraError: what it needs is not installed.
        """
        word, rest = (tokens[0] if tokens else HELP), [*tokens[1:]]
        if word in (HELP, ALL):
            cls.app(name).help_print([])
            return None, rest
        points = cls.points()
        if word.startswith("-"):
            hint = "Options follow the command's name."
            raise TypingError(word, None, f"`{name}`", hint, code="unknown-option")
        if word not in points:
            near = difflib.get_close_matches(word, points, n=1)
            hint = f"Did you mean `{name} {near[0]}`? " if near else ""
            hint += f"`{name} {HELP}` lists them."
            raise TypingError("", word, f"`{name}`", hint, code="unknown-command")
        found = load(points[word])
        if isinstance(found, type) and issubclass(found, Commands):
            return found.command(f"{name} {word}", rest)
        return Command(f"{name} {word}", found), rest

    @classmethod
    def call(cls, name: str, *words: object) -> Any:
        """Returns what a command returns that is run in this process; what it raises is raised."""
        command, rest = cls.command(name, [*map(str, words)])
        return None if command is None else command.run(rest)

    @classmethod
    def app(cls, name: str, *, loaded: bool = False) -> App:
        """Returns the application of the group, for its help, or for completion.

        Args:
            name: by which it is called.
            loaded: whether commands have their options, for which all are imported.
        """
        app = app_of(name, "COMMAND [OPTIONS]", inspect.getdoc(cls))
        for order, (word, point) in enumerate(cls.points().items()):
            if not loaded:
                one = app_of(f"{name} {word}", "", _help_of(point))
            else:
                found = load(point)
                is_group, full = isinstance(found, type), f"{name} {word}"
                one = found.app(full, loaded=True) if is_group else Command(full, found).app(True)
            one.sort_key = order
            app.command(one)
        return app


@functools.cache
def load(point: EntryPoint) -> Any:
    """Returns the function or the group of commands; a function says what it needs and lacks.

    Raises:
        MissingExtraError: its module needs what is not installed.
    """
    with _imported_for_good():
        found = _told(point, lambda: entry_points.import_from(point))
    if isinstance(found, type) or not point.extras:
        return found

    @functools.wraps(found)
    def called(*arguments: Any, **options: Any) -> Any:
        return _told(point, lambda: found(*arguments, **options))

    return called


@contextmanager
def _imported_for_good() -> Iterator[None]:
    """What the block imports stays: to look for garbage among it took a fifth of help's time."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _told(point: EntryPoint, work: Callable[[], Any]) -> Any:
    try:
        return work()
    except ModuleNotFoundError as error:
        package, _, _ = (error.name or "").partition(".")
        if not point.extras or package in ("extensions", point.module.partition(".")[0]):
            raise
        raise MissingExtraError(package, point.extras[0]) from error


def _help_of(point: EntryPoint) -> str:
    """Returns the docstring of the function or group, which is not imported, nor any package."""
    for node in entry_points.statements(point.module):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == point.attr:
            return ast.get_docstring(node) or ""
    return ""
