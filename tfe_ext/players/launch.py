"""Processes of the players on this host, none of which outlives the one that started them."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from extensions.errors import ArgumentError, PlayerLostError
from tfe_ext.players.client import read_players
from tfe_ext.streams.choice import load_for_players

NOTICE = (
    "TensorFlow's servers neither authenticate nor encrypt, and listen on every interface of this "
    "host, whatever address the file gives: who reaches a port can read every share there and run "
    "any operation. Keep the ports inside a private network, VPN or authenticated tunnel."
)
_TICK = 0.2
_SETTLING = 10.0
_ENDING = 5.0


def serve(
    file: str | Path, player: str | None = None, *, tell: Callable[[str], None] = print
) -> None:
    """The players run until one of them ends; Ctrl-C, or this process's death, ends them all.

    Args:
        file: names and addresses, see `tfe_ext.players.client.read_players`.
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
    running: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for name in players if player is None else [player]:
            running[name] = _start(name, file)
        while True:
            for name, process in running.items():
                if (status := process.poll()) is not None:
                    time.sleep(_SETTLING)
                    raise PlayerLostError(name, f"ended with status {status}")
            time.sleep(_TICK)
    except KeyboardInterrupt:
        tell("The players end.")
    finally:
        for process in running.values():
            _end(process)


def _start(name: str, file: str | Path) -> "subprocess.Popen[bytes]":
    in_main_thread = threading.current_thread() is threading.main_thread()
    launcher = str(os.getpid() if in_main_thread else 0)
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "tfe_ext.players.player", name, str(file), launcher],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p or os.getcwd() for p in sys.path)},
        stdin=subprocess.PIPE,
        start_new_session=True,
    )


def _end(process: "subprocess.Popen[bytes]") -> None:
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_ENDING)
    if process.stdin is not None:
        process.stdin.close()
