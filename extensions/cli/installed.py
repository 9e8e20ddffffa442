"""Commands that are imported when they are called: ours, and those that distributions add.

A distribution adds one to `pea` under the entry point group ``pea.commands``, which names a
function or a group of `Commands`, and the extra that it needs if there is one:

    [project.entry-points."pea.commands"]
    players = "tfe_ext.players.command:players [tfe]"

Its parameters are options as Typer reads them, or dataclasses (`extensions.options.Option`). The
list of commands reads the text of its module alone. What the extra installs is imported within the
function, so that neither help nor what is refused before needs it.
"""

import ast
import functools
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

from extensions.cli.parameters import with_options
from extensions.cli.refusals import Command, flags_alone, refused_by_group
from extensions.errors import MissingExtraError
from extensions.runs import entry_points

GROUP = "pea.commands"


class Commands(TyperGroup):
    """The commands of an application, and after them those that are installed.

    Attributes:
        own: from names to functions, as ``module:function``.
        group: of the entry points of further ones; None: there are none.
    """

    own: ClassVar[Mapping[str, str]] = {}
    group: ClassVar[str | None] = None

    def list_commands(self, ctx: Any) -> list[str]:
        """Returns the names, the application's own first."""
        return [*dict.fromkeys([*self.own, *sorted(self._points())])]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Returns the command of that name; None if there is none."""
        point = self._points().get(cmd_name)
        return None if point is None else Lazy(point)

    def get_params(self, ctx: Any) -> list[Any]:
        """Returns the parameters, as help shows them."""
        return flags_alone(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Reads the options before the command's name; nothing at all asks for help."""
        with refused_by_group(self, ctx):
            return super().parse_args(ctx, args or ["--help"])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Returns the command that was typed, and its arguments."""
        with refused_by_group(self, ctx, args[0]):
            return super().resolve_command(ctx, args)

    def _points(self) -> dict[str, EntryPoint]:
        own = {name: EntryPoint(name, value, GROUP) for name, value in self.own.items()}
        return {**({} if self.group is None else entry_points.offered(self.group)), **own}


class Lazy(TyperCommand):
    """A command that is imported when it is called, and until then knows its name and help."""

    def __init__(self, point: EntryPoint) -> None:
        super().__init__(point.name, help=_help_of(point))
        self._point = point

    def make_context(self, *arguments: Any, **settings: Any) -> Any:
        """Returns the context of the command itself.

        Raises:
            MissingExtraError: what it needs is not installed.
        """
        return command_of(self._point).make_context(*arguments, **settings)


@functools.cache
def command_of(point: EntryPoint) -> Any:
    """Returns the command, with an option for each field of the dataclasses that it takes.

    Raises:
        MissingExtraError: its module needs what is not installed.
    """
    function = _told(point, lambda: entry_points.import_from(point))
    if isinstance(function, type):
        return typer.main.get_command(group_of(function))
    app = typer.Typer(add_completion=False)
    app.command(point.name, cls=Command)(with_options(_with_extra(point, function)))
    return typer.main.get_command(app)


def group_of(commands: type[Commands]) -> typer.Typer:
    """Returns the application of a group of commands."""
    app = typer.Typer(cls=commands, add_completion=False, pretty_exceptions_enable=False)

    @app.callback(help=commands.__doc__)
    def group() -> None:
        return

    return app


def _with_extra(point: EntryPoint, function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function, which says what is to be installed if that is missing."""

    @functools.wraps(function)
    def called(*arguments: Any, **options: Any) -> Any:
        return _told(point, lambda: function(*arguments, **options))

    return called


def _told(point: EntryPoint, work: Callable[[], Any]) -> Any:
    try:
        return work()
    except ModuleNotFoundError as error:
        package, _, _ = (error.name or "").partition(".")
        if not point.extras or package in ("extensions", point.module.partition(".")[0]):
            raise
        raise MissingExtraError(package, point.extras[0]) from error


def _help_of(point: EntryPoint) -> str | None:
    """Returns the docstring of the function or group, which is not imported, nor any package."""
    for node in entry_points.statements(point.module):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == point.attr:
            return ast.get_docstring(node)
    return None
