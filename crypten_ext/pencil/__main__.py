"""`python -m crypten_ext.pencil`, which is `pea pencil`."""

from crypten_ext.pencil.commands import PencilCommands
from extensions.cli.main import run

if __name__ == "__main__":
    run(PencilCommands, "pea pencil")
