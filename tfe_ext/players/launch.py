"""Processes of the players on this host, none of which outlives the one that started them."""

import os
import time
from collections.abc import Callable
from pathlib import Path

from extensions.errors import ArgumentError, PlayerLostError
from extensions.runs.processes import Process
from tfe_ext.players.addresses import read_players
from tfe_ext.streams.choice import load_for_players

NOTICE = (
    "TensorFlow's servers neither authenticate nor encrypt, and listen on every interface of this "
    "host, whatever address the file gives: who reaches a port can read every share there and run "
    "any operation. Keep the ports inside a private network, VPN or authenticated tunnel."
)
_PROGRAM = "tfe_ext.players.player"
_TICK = 0.2
_SETTLING = 10.0


def serve(
    file: str | Path, player: str | None = None, *, tell: Callable[[str], None] = print
) -> None:
    """Runs the players until one of them ends; Ctrl-C, or this process's death, ends them all.

    Args:
        file: names and addresses, see `tfe_ext.players.addresses.read_players`.
        player: name of the one player of this host; None starts all, on this host.
        tell: called with the notice on who may reach the players.

    Raises:
        ArgumentError: the file is not as it should be, or has no such player.
        NativeError: TFE_EXT_RANDOMNESS is "native", and the operation cannot be built here.
        PlayerLostError: a player ended; the others are ended 10 s later, when every script had
            the time to find out which was the first.
    """
    players = read_players(file)
    if player is not None and player not in players:
        raise ArgumentError("player", player, f"one of {', '.join(players)}")
    load_for_players()
    tell(NOTICE)
    running: dict[str, Process] = {}
    try:
        for name in players if player is None else [player]:
            running[name] = Process(*(_PROGRAM, name, str(file)), env=os.environ, shows_output=True)
        while True:
            for name, process in running.items():
                if (status := process.status) is not None:
                    time.sleep(_SETTLING)
                    raise PlayerLostError(name, f"ended with status {status}")
            time.sleep(_TICK)
    except KeyboardInterrupt:
        tell("The players end.")
    finally:
        for process in running.values():
            process.end()
