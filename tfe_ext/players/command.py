"""The command `pea players`."""

from pathlib import Path
from typing import Annotated

import typer

from tfe_ext.players.launch import serve

READ_APART = True


def players(
    players: Annotated[
        Path,
        typer.Option(help="JSON file of names and HOST:PORT, the same for all and the script."),
    ],
    player: Annotated[
        str | None, typer.Option(help="The one player of this host; all of them if left out.")
    ] = None,
) -> None:
    """Run the players of a TF Encrypted session; its script reaches them by the same file.

    They end with this command, and it ends with status 1 if one of them ends.
    """
    serve(players, player, tell=typer.echo)
