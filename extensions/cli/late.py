"""Commands whose module is imported when they are called, so that others need none of its extra."""

import importlib
from typing import Any

import typer
from typer.core import TyperCommand

from extensions.errors import MissingExtraError

OURS = ("extensions", "fl")


def late(module: str, extra: str) -> type[TyperCommand]:
    """Returns the class of a command that stands for the only one of the `app` of a module.

    Args:
        module: by name, since this package imports nobody who needs it.
        extra: of this project, which installs what the module needs.
    """

    class Late(TyperCommand):
        def make_context(self, *arguments: Any, **settings: Any) -> Any:
            return _command(module, extra).make_context(*arguments, **settings)

    return Late


def _command(module: str, extra: str) -> Any:
    """Returns the command itself.

    Raises:
        MissingExtraError: what it needs is not installed.
    """
    try:
        app = importlib.import_module(module).app
    except ModuleNotFoundError as error:
        package = (error.name or module).partition(".")[0]
        if package in OURS:
            raise
        raise MissingExtraError(package, extra) from error
    return typer.main.get_command(app)
