"""The `pea` command."""

import sys
from collections.abc import Mapping
from typing import Annotated, ClassVar

import typer

from extensions import __version__
from extensions.cli.installed import GROUP, Commands
from extensions.cli.refusals import TypingError
from extensions.errors import LostError, PeaError


class PeaCommands(Commands):
    """Our commands, and those that are installed."""

    own: ClassVar[Mapping[str, str]] = {
        "train": "extensions.cli.training:train",
        "party": "extensions.cli.training:party",
        "plan": "extensions.cli.model.plan:plan",
        "budget": "extensions.cli.budget:budget",
        "keys": "extensions.cli.identities:keys",
        "federation": "extensions.cli.identities:federation",
        "split": "extensions.cli.data:split",
        "features": "extensions.cli.data:extract",
        "schema": "extensions.cli.data:schema",
        "predict": "extensions.cli.model.queries:predict",
        "export": "extensions.cli.model.queries:export",
        "evaluate": "extensions.cli.model.shares:evaluate",
        "open": "extensions.cli.model.shares:open_model",
    }
    group: ClassVar[str | None] = GROUP


app = typer.Typer(cls=PeaCommands, pretty_exceptions_enable=False)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"pea {__version__}")
        raise typer.Exit


@app.callback()
def pea(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Train models on several parties' private data."""


def main() -> None:
    """Runs `pea`."""
    run(app, "pea")


def run(app: typer.Typer, name: str) -> None:
    """Runs an application and ends the process; an error of the project is one line.

    It goes to standard error, and the status is 1, or 2 if what was typed is no option or no value
    of its type. Only where a process was lost do further lines say what it last printed.

    Args:
        app: of `extensions.cli.installed.Commands`.
        name: by which it is called; its last word begins the line.
    """
    try:
        status = app(standalone_mode=False, prog_name=name)
    except (PeaError, OSError) as error:
        print(f"{name.split()[-1]}: {' '.join(str(error).split())}", file=sys.stderr)
        if isinstance(error, LostError):
            for note in getattr(error, "__notes__", []):
                print(note, file=sys.stderr)
        sys.exit(2 if isinstance(error, TypingError) else 1)
    sys.exit(status if isinstance(status, int) else 0)
