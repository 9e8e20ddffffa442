"""The command `pea players`."""

from pathlib import Path
from typing import Annotated

from extensions.checks import check_together
from extensions.options import Option, Options
from extensions.printing import say
from extensions.transport import Local
from tfe_ext.players.launch import IDLE_TIMEOUT, serve
from tfe_ext.players.records.reading import PlayerData


def players(
    players: Annotated[
        Path,
        Option(help="JSON file of names and HOST:PORT, the same for all players and the script."),
    ],
    own: Annotated[PlayerData | None, Options("Records")],
    player: Annotated[
        str | None, Option(help="Player to run on this host; by default all.")
    ] = None,
    idle_timeout: Annotated[
        float, Option(help="Seconds without a script after which the players stop.")
    ] = IDLE_TIMEOUT,
    federation: Annotated[
        Path | None, Option(help="File of `pea federation`, for TLS between players and client.")
    ] = None,
    key: Annotated[
        Path | None, Option(help="With --federation, this host's file of `pea keys`.")
    ] = None,
    insecure_open_port: Annotated[
        bool, Option(help="Let other hosts reach TensorFlow's port, which has no authentication.")
    ] = False,
) -> None:
    """Run the players of a TF Encrypted session; its script reaches them by the same file.

    They end with this command, and it ends with status 1 if one of them is lost. With --records a
    player reads its owner's records for `pea train --players`, and gives them to nobody.
    """
    check_together("federation", federation, "key", key)
    serve(
        players,
        player,
        own,
        idle_timeout=idle_timeout,
        insecure_open_port=insecure_open_port,
        local=Local.read(federation, key) if federation and key else None,
        tell=say,
    )
