"""Commands that distributions add to `pea` under the entry point group ``pea.commands``.

An entry point names a function, with the extra that it needs if there is one:

    [project.entry-points."pea.commands"]
    players = "tfe_ext.players.command:players [tfe]"

Its parameters are options as Typer reads them, or dataclasses (`extensions.options.Option`). The
module is imported when the command is called; the list of commands reads its text alone.
"""

import ast
from importlib.abc import InspectLoader
from importlib.machinery import PathFinder
from importlib.metadata import EntryPoint
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from extensions.cli.parameters import with_options
from extensions.errors import MissingExtraError
from extensions.runs import entry_points

GROUP = "pea.commands"


class Commands(TyperGroup):
    """The commands of an application, and after them those that are installed."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Returns the names, the application's own first."""
        return [
            *super().list_commands(ctx),
            *sorted(entry_points.offered(GROUP).keys() - self.commands.keys()),
        ]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Returns the command of that name; None if there is none."""
        own = super().get_command(ctx, cmd_name)
        if own is None and cmd_name in (points := entry_points.offered(GROUP)):
            return Installed(points[cmd_name])
        return own


class Installed(TyperCommand):
    """A command that is imported when it is called, and until then knows its name and help."""

    def __init__(self, point: EntryPoint) -> None:
        super().__init__(point.name, help=_help_of(point))
        self._point = point

    def make_context(self, *arguments: Any, **settings: Any) -> Any:
        """Returns the context of the command itself.

        Raises:
            MissingExtraError: what it needs is not installed.
        """
        app = typer.Typer(add_completion=False)
        app.command(self.name)(with_options(_load(self._point)))
        return typer.main.get_command(app).make_context(*arguments, **settings)


def _load(point: EntryPoint) -> Any:
    try:
        return entry_points.load(GROUP, "command", point.name)
    except ModuleNotFoundError as error:
        package, _, _ = (error.name or "").partition(".")
        if not point.extras or package in ("extensions", point.module.partition(".")[0]):
            raise
        raise MissingExtraError(package, point.extras[0]) from error


def _help_of(point: EntryPoint) -> str | None:
    """Returns the docstring of the function, which is not imported, nor is any package of it."""
    path = None
    names = point.module.split(".")
    for depth in range(1, len(names) + 1):
        spec = PathFinder.find_spec(".".join(names[:depth]), path)
        if spec is None or not isinstance(spec.loader, InspectLoader):
            return None
        path = spec.submodule_search_locations
        loader = spec.loader
    for node in ast.parse(loader.get_source(point.module) or "").body:
        if isinstance(node, ast.FunctionDef) and node.name == point.attr:
            return ast.get_docstring(node)
    return None
