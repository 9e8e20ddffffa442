"""The command `pea players`."""

from pathlib import Path
from typing import Annotated

import typer

from tfe_ext.players.launch import serve


def players(
    config: Annotated[Path, typer.Option(help="JSON file of names and HOST:PORT.")],
    player: Annotated[
        str | None, typer.Option(help="The one player of this host; all of them if left out.")
    ] = None,
) -> None:
    """Run the players of a TF Encrypted session; its script reaches them by the same file.

    They end with this command, and it ends with status 1 if one of them ends.
    """
    serve(config, player, tell=typer.echo)
