"""`python -m crypten_ext.pencil`, which is `pea pencil`."""

from crypten_ext.pencil.commands import PencilCommands
from extensions.cli.main import run


def main() -> None:
    """Runs what is typed."""
    run(PencilCommands, "pea pencil")


if __name__ == "__main__":
    main()
