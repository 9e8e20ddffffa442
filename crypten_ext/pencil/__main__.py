"""`python -m crypten_ext.pencil`, which is `pea pencil`."""

import typer

from crypten_ext.pencil.commands import PencilCommands
from extensions.cli.installed import group_of
from extensions.cli.main import run

app: typer.Typer = group_of(PencilCommands)

if __name__ == "__main__":
    run(app, "pea pencil")
