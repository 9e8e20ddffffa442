"""Players in processes of their own, on this host or others, as the client sees them.

    tfe.set_config(tfe_ext.remote_config("players.json"))
    tfe.set_protocol(tfe_ext.ABY3())

or, where a script wants to catch the loss of a player and go on,

    with tfe_ext.remote_config("players.json") as config:
        tfe.set_config(config)
        ...

The file is the host's: a JSON object of names and addresses, `read_players` says which.
"""

import json
import sys
from collections import OrderedDict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import tensorflow as tf

from extensions.checks import check_seconds
from extensions.errors import ArgumentError, PlayerLostError
from tfe_ext.players.status import Statuses, task_of
from tfe_ext.players.watch import Watch

import tf_encrypted as tfe

SERVERS = ("server0", "server1", "server2")
JOB = "tfe"
_CONNECTION = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.InternalError,
    tf.errors.InvalidArgumentError,
    tf.errors.UnknownError,
)


def read_players(file: str | Path) -> "OrderedDict[str, str]":
    """Returns each player's address, in the file's order, which must be one for all processes.

    Args:
        file: a JSON object such as ``{"server0": "10.0.0.1:4440", "server1": "10.0.0.2:4440",
            "server2": "10.0.0.3:4440"}``. The three servers must be there; any other name is a
            player that gives inputs or gets outputs. TF Encrypted's own tools read it too.

    Raises:
        ArgumentError: it is no such object, an address is not HOST:PORT, or two are the same.
        OSError: it cannot be read.
    """
    try:
        players: OrderedDict[str, str] = json.loads(
            Path(file).read_text(), object_pairs_hook=_distinct
        )
    except ValueError as error:
        raise ArgumentError("config", str(file), "a JSON file", str(error)) from None
    texts = isinstance(players, OrderedDict) and all(isinstance(a, str) for a in players.values())
    if not texts or not set(SERVERS) <= set(players):
        raise ArgumentError(
            "config",
            str(file),
            'a JSON object of names and addresses with "server0", "server1" and "server2"',
        )
    for name, address in players.items():
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
            raise ArgumentError(f"config[{name!r}]", address, "HOST:PORT")
    if len(set(players.values())) < len(players):
        raise ArgumentError("config", str(file), "without an address that occurs twice")
    return players


def _distinct(pairs: list[tuple[str, Any]]) -> "OrderedDict[str, Any]":
    players = OrderedDict(pairs)
    if len(players) < len(pairs):
        raise ValueError("A name occurs twice.")
    return players


class RemotePlayers(tfe.RemoteConfig):
    """TF Encrypted's configuration of players elsewhere, each known to be there.

    The players are watched (`tfe_ext.players.watch.Watch`) until `close`. If one dies or falls
    silent, standard error names it within 40 s. What TensorFlow raises for it then leaves a
    ``with`` block, or the script, as a `PlayerLostError` that names it; a script that TensorFlow
    keeps waiting ends with status 70, within 60 s of the loss or 20 s of the call. A script that
    waits for nothing, such as a notebook between two cells, goes on.
    """

    def __init__(self, players: "OrderedDict[str, str]", join_timeout: float) -> None:
        super().__init__(players, job_name=JOB)
        self._statuses = Statuses(players)
        self._first = dict(self._statuses.wait_for_all(join_timeout))
        for index, name in enumerate(players):
            if task_of(self._first[name]) != f"/job:{JOB}/replica:0/task:{index}":
                raise PlayerLostError(
                    name,
                    f"is not the one that answers at {players[name]}: another player or programme "
                    "does. Give the players and the client the same file.",
                )
        self._watch: Watch | None = None
        self._begin_watch()
        self._outer_hook, sys.excepthook = sys.excepthook, self._report
        self.connect_servers()

    def get_player(self, name_or_player: Any) -> Any:
        """Returns the player of this name.

        Raises:
            ArgumentError: there is none.
        """
        player = super().get_player(name_or_player)
        if player is None:
            names = ", ".join(player.name for player in self.players)
            raise ArgumentError("player", name_or_player, f"one of {names}", "Name it in the file.")
        return player

    def close(self) -> None:
        """Stops watching the players, which may go; entering a block watches them again."""
        if self._watch is not None:
            self._watch.stop()
            self._watch = None

    def __enter__(self) -> Self:
        self._begin_watch()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        lost = self._explain(error)
        self.close()
        if lost is not None:
            raise lost from error

    def _begin_watch(self) -> None:
        if self._watch is None:
            self._watch = Watch(self._statuses, self._first)
            self._watch.start()

    def _explain(self, error: BaseException | None) -> PlayerLostError | None:
        if self._watch is None or not isinstance(error, _CONNECTION):
            return None
        return self._watch.explain()

    def _report(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        """The report of an error that nobody caught; it replaces `sys.excepthook`."""
        lost = self._explain(error)
        if lost is None:
            self._outer_hook(kind, error, trace)
        else:
            lost.__cause__ = error.with_traceback(trace)
            self._outer_hook(PlayerLostError, lost, None)


def remote_config(file: str | Path, *, join_timeout: float = 60.0) -> RemotePlayers:
    """Returns the configuration of what `pea players` started, once all players are there.

    It connects this process to them, for the rest of its life; then ``tfe.set_config(...)``. The
    loss of one is told from now on, see `RemotePlayers`.

    Args:
        file: names and addresses, see `read_players`; the players were given the same.
        join_timeout: seconds within which all players must answer.

    Raises:
        ArgumentError: the file is not as it should be.
        PlayerLostError: a player did not answer in time, or is another one than the file says.
    """
    check_seconds("join_timeout", join_timeout)
    return RemotePlayers(read_players(file), join_timeout)
