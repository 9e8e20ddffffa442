"""The command `pea players`."""

from pathlib import Path
from typing import Annotated

import typer

from tfe_ext.players.launch import IDLE_TIMEOUT, serve

READ_APART = True


def players(
    players: Annotated[
        Path,
        typer.Option(help="JSON file of names and HOST:PORT, the same for all and the script."),
    ],
    player: Annotated[
        str | None, typer.Option(help="The one player of this host; all of them if left out.")
    ] = None,
    idle_timeout: Annotated[
        float, typer.Option(help="Seconds without a script after which the players end.")
    ] = IDLE_TIMEOUT,
) -> None:
    """Run the players of a TF Encrypted session; its script reaches them by the same file.

    They end with this command, and it ends with status 1 if one of them is lost.
    """
    serve(players, player, idle_timeout=idle_timeout, tell=typer.echo)
