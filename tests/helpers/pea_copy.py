"""The programme of a copy of a process that has imported the command: `pea` with its arguments."""

import sys

from extensions.cli.main import main as pea


def main() -> None:
    """Runs the command."""
    sys.argv[0] = "pea"
    pea()
