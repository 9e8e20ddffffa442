"""Processes of the players on this host, none of which outlives the one that started them."""

import os
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from extensions.checks import check_address, check_seconds
from extensions.errors import ArgumentError, PlayerLostError
from extensions.runs.entry_points import quiet_unless_it_fails
from extensions.runs.processes import Process, Template
from tfe_ext.players.addresses import read_players

NOTICE = (
    "TensorFlow's servers neither authenticate nor encrypt, and listen on every interface of this "
    "host, whatever address the file gives: who reaches a port can read every share there and run "
    "any operation. Keep the ports inside a private network, VPN or authenticated tunnel."
)
IDLE_TIMEOUT = 3600.0
_PROGRAM = "tfe_ext.players.player"

_TICK = 0.2
_SETTLING = 10.0


def serve(
    file: str | Path,
    player: str | None = None,
    *,
    idle_timeout: float = IDLE_TIMEOUT,
    tell: Callable[[str], None] = print,
) -> None:
    """Runs the players until one of them ends; Ctrl-C, or this process's death, ends them all.

    So do `idle_timeout` seconds without a script.

    Args:
        file: names and addresses, see `tfe_ext.players.addresses.read_players`.
        player: name of the one player of this host; None starts all, on this host.
        idle_timeout: seconds.
        tell: called with what the user should know: who may reach the players, who has all shares,
            and whether this host has the address that the file gives.

    Raises:
        ArgumentError: the file is not as it should be, or has no such player; none is named, and
            some have addresses of other hosts; or a time that is not positive.
        NativeError: TFE_EXT_RANDOMNESS is "native", and the operation cannot be built here.
        PlayerLostError: a player ended; the others are ended 10 s later, when every script had
            the time to find out which was the first.
    """
    check_seconds("idle_timeout", idle_timeout)
    players = read_players(file)
    if player is not None and player not in players:
        raise ArgumentError("player", player, f"one of {', '.join(players)}")
    say = _where(players, player)
    with quiet_unless_it_fails():
        from tfe_ext.streams.choice import load_for_players
    load_for_players()
    tell(NOTICE)
    tell(say)
    names = [player] if player else [*players]
    try:
        with _running(names, str(file), str(idle_timeout)) as running:
            _wait(running)
        tell(f"No script came for {idle_timeout:g} s: the players end.")
    except KeyboardInterrupt:
        tell("The players end.")


@contextmanager
def _running(names: Sequence[str], *arguments: str) -> Iterator[dict[str, Process]]:
    """Yields a process for each player, which ends with the block; several are copies of one."""
    with ExitStack() as stack:
        template = None
        if len(names) > 1 and sys.platform == "linux":
            template = Template("tfe_ext", env=os.environ, shows_output=True)
            stack.callback(template.end)
        running = {}
        for name in names:
            running[name] = Process(
                *(_PROGRAM, name, *arguments), env=os.environ, shows_output=True, template=template
            )
            stack.callback(running[name].end)
        yield running


def _wait(running: Mapping[str, Process]) -> None:
    """Returns once nobody has asked a player for long.

    Raises:
        PlayerLostError: one ended otherwise.
    """
    while True:
        for name, process in running.items():
            if (status := process.status) == 0:
                return
            if status is not None:
                time.sleep(_SETTLING)
                raise PlayerLostError(name, f"ended with status {status}")
        time.sleep(_TICK)


def _where(players: Mapping[str, str], player: str | None) -> str:
    """Returns on which host the players start, as their addresses say it.

    Raises:
        ArgumentError: all are to start on this host, but some have addresses of others.
    """
    elsewhere = {name: address for name, address in players.items() if not _is_here(address)}
    if player in elsewhere:
        return (
            f"This host has no address {elsewhere[player]}, which the file gives to {player}: the "
            "others must reach it there in another way, or this is the wrong host or player."
        )
    if player is not None:
        return f"Player {player} starts on this host."
    if elsewhere:
        listed = ", ".join(f"{name} at {address}" for name, address in elsewhere.items())
        raise ArgumentError(
            "player",
            player,
            "named, since other hosts have players",
            f"Start each on its own host, with --player NAME; not on this one: {listed}.",
        )
    return (
        f"All {len(players)} players start on this host, which so has all shares: "
        f"{', '.join(players)}. With --player NAME one of them starts."
    )


def _is_here(address: str) -> bool:
    """Whether a socket of this host can have the address; its port does not matter."""
    host, _ = check_address("players", address)
    try:
        for family, kind, protocol, _, place in socket.getaddrinfo(
            host, 0, type=socket.SOCK_STREAM
        ):
            with socket.socket(family, kind, protocol) as one:
                one.bind(place)
    except OSError:
        return False
    return True
