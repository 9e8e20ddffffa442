"""Processes of the players on this host, none of which outlives the one that started them."""

import pickle
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from extensions.checks import check_address, check_seconds
from extensions.errors import ArgumentError, PlayerLostError
from extensions.rules import one_of
from extensions.runs.entry_points import quiet_unless_it_fails
from extensions.runs.processes import Process, shared_template
from extensions.transport import Local
from tfe_ext.players.addresses import is_here, read_players
from tfe_ext.players.player import OPEN
from tfe_ext.players.records.owner import Held
from tfe_ext.players.records.reading import PlayerData
from tfe_ext.players.sockets import is_loopback
from tfe_ext.players.tls import Links
from tfe_ext.threads import environment_of

NOTICE = (
    "The ports are open on every interface of this host, whatever address the file gives, and "
    "TensorFlow's servers have no authentication or encryption. Anyone who reaches a port can read "
    "all shares and records there and run any operation. Keep the ports inside a private network, "
    "VPN or authenticated tunnel."
)
CLOSED = (
    "The ports are closed to other hosts. But every user of this host can read all shares and "
    "records there, because TensorFlow's servers have no authentication."
)
IDLE_TIMEOUT = 3600.0
_PROGRAM = "tfe_ext.players.player"
_TICK = 0.2
_SETTLING = 10.0


def serve(
    file: str | Path,
    player: str | None = None,
    own: PlayerData | None = None,
    *,
    idle_timeout: float = IDLE_TIMEOUT,
    insecure_open_port: bool = False,
    local: Local | None = None,
    tell: Callable[[str], None] = print,
) -> None:
    """Runs the players until one of them ends; Ctrl-C, or this process's death, ends them all.

    So do `idle_timeout` seconds without a script.

    Args:
        file: names and addresses, see `tfe_ext.players.addresses.read_players`.
        player: name of the one player of this host; None starts all, on this host.
        own: what their owners have; None: no records.
        idle_timeout: seconds.
        insecure_open_port: whether other hosts may reach a port at which TensorFlow listens;
            players with other addresses than this host's own, such as 127.0.0.1, need it, and
            systems that cannot close a port.
        local: this host in a federation, whose members reach each other by TLS; None: they do not.
        tell: called with what the user should know: who may reach the players, who has all shares,
            and whether this host has the address that the file gives.

    Raises:
        NativeError: TFE_EXT_RANDOMNESS is "native", and the operation cannot be built here.
        PlayerLostError: a player ended; the others are ended 10 s later, when every script had the
            time to find out which was the first.
    """
    check_seconds("idle_timeout", idle_timeout)
    players = read_players(file)
    if player is not None:
        one_of(players).check("player", player)
    if local is not None and player != local.member.name:
        raise ArgumentError("player", player, f"{local.member.name}, whose key it is")
    say = _where(players, player)
    names = [player] if player else [*players]
    if not insecure_open_port:
        _check_closed({name: players[name] for name in names})
    held = {} if own is None else own.of(player)
    with quiet_unless_it_fails():
        from tfe_ext.streams.choice import load_for_players
    load_for_players()
    tell(NOTICE if insecure_open_port else CLOSED)
    tell(say)
    arguments = (str(file), str(idle_timeout), *([OPEN] if insecure_open_port else []))
    try:
        with _linked(local, players, tell), running(names, held, *arguments) as found:
            _wait(found)
        tell(f"No script came for {idle_timeout:g} s: the players end.")
    except KeyboardInterrupt:
        tell("The players end.")


def _linked(
    local: Local | None, players: Mapping[str, str], tell: Callable[[str], None]
) -> AbstractContextManager[object]:
    """Returns a block in which the other members' links are there, if there are any."""
    if local is None:
        return nullcontext()
    _check_closed(players)
    own = local.member
    _, port = check_address("players", players[own.name])
    tell(f"The other members come by TLS 1.3 at {own.address}, and know {own.fingerprint}.")
    return Links(local, players, port, tell)


@contextmanager
def running(
    names: Sequence[str], held: dict[str, Held], *arguments: str, shows_output: bool = True
) -> Iterator[dict[str, Process]]:
    """Yields a process for each player, which ends with the block; several are copies of one.

    Each gets its own records, which are taken out of `held`, through its channel with this process.
    Arguments are those of `tfe_ext.players.player` after the name.
    """
    template, found = None, {}
    given: Any = {"env": environment_of(len(names)), "shows_output": shows_output}
    with ExitStack() as stack:
        if len(names) > 1:
            template = stack.enter_context(shared_template("tfe_ext.streams.choice", **given))
        for name in names:
            found[name] = Process(_PROGRAM, name, *arguments, template=template, **given)
            stack.callback(found[name].end)
            found[name].send(pickle.dumps(held.pop(name, None)))
        yield found


def _wait(running: Mapping[str, Process]) -> None:
    """Returns once nobody has asked a player for long; PlayerLostError if one ended otherwise."""
    while True:
        for name, process in running.items():
            if (status := process.status) == 0:
                return
            if status is not None:
                time.sleep(_SETTLING)
                raise PlayerLostError(name, f"ended with status {status}")
        time.sleep(_TICK)


def _check_closed(players: Mapping[str, str]) -> None:
    """Checks that nobody on another host is meant to reach these players' ports."""
    for name, address in players.items():
        host, _ = check_address(f"players[{name!r}]", address)
        if not is_loopback(host):
            raise ArgumentError(
                f"players[{name!r}]",
                address,
                "this host's own, such as 127.0.0.1, without {insecure_open_port}",
                "TensorFlow's servers have no authentication or encryption: anyone who reaches the "
                "port reads all shares and records. Open it only within a private network or VPN.",
            )


def _where(players: Mapping[str, str], player: str | None) -> str:
    """Returns on which host the players start, as their addresses say it.

    Raises:
        ArgumentError: all are to start on this host, but some have addresses of others.
    """
    elsewhere = {name: address for name, address in players.items() if not is_here(address)}
    if player in elsewhere:
        return (
            f"This host lacks the address {elsewhere[player]} that the file gives to {player}. "
            "Check the host and the player, unless others reach it there in another way."
        )
    if player is not None:
        return f"Player {player} starts on this host."
    if elsewhere:
        listed = ", ".join(f"{name} at {address}" for name, address in elsewhere.items())
        raise ArgumentError(
            "player",
            None,
            "because some players are on other hosts",
            f"Start each on its own host with {{player}}. These are elsewhere: {listed}.",
            code="missing",
        )
    return (
        f"All {len(players)} players start on this host, which therefore has all shares: "
        f"{', '.join(players)}. To start only one, name it."
    )
