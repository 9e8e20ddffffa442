"""Players in processes of their own, on this host or others, as the client sees them.

    tfe.set_config(tfe_ext.remote_config("players.json"))
    tfe.set_protocol(tfe_ext.ABY3())

or, where a script wants to catch the loss of a player and go on,

    with tfe_ext.remote_config("players.json") as config:
        tfe.set_config(config)
        ...

The file is the host's: a JSON object of names and addresses, `read_players` says which.
"""

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import tensorflow as tf

from extensions.checks import check_seconds
from extensions.errors import ArgumentError, PlayerLostError
from extensions.rules import one_of
from tfe_ext.players.addresses import read_players
from tfe_ext.players.calls import keep_order, let_threads_run
from tfe_ext.players.connection import Connection, broken_link, exchange
from tfe_ext.players.job import JOB, check_software
from tfe_ext.players.status import Statuses, task_of
from tfe_ext.players.watch import Watch

import tf_encrypted as tfe

_PAUSE = 1.0


class RemotePlayers(tfe.RemoteConfig):
    """TF Encrypted's configuration of players elsewhere, each known to be there.

    The players are watched (`tfe_ext.players.watch.Watch`) until `close`. If one dies or falls
    silent, standard error names it, and every call of TensorFlow that waits for it, or is made
    later, fails. So does a call for which one player cannot reach another one, or this process:
    `pea players` ends connections to hosts that are silent for 20 s. What TensorFlow raises then
    leaves a ``with`` block, or the script, as a `PlayerLostError` that names the player, within 60
    s of the loss. A script that waits for nothing, such as a notebook between two cells, goes on.

    After a loss, or when a player was started anew, `remote_config` connects again; protocol,
    variables, models and graphs of before had shares on the lost player, and are made anew.
    """

    def __init__(
        self, players: Mapping[str, str], join_timeout: float, own_address: str | None
    ) -> None:
        super().__init__(players, job_name=JOB)
        self._join_until = time.monotonic() + join_timeout
        self._statuses = Statuses(players)
        self._first = dict(self._statuses.wait_for_all(join_timeout))
        for name in players:
            check_software(name, task_of(self._first[name]))
        for index, name in enumerate(players):
            if task_of(self._first[name]) != f"/job:{JOB}/replica:0/task:{index}":
                raise PlayerLostError(
                    name,
                    f"does not answer at {players[name]}: {self._who(name)} does. Give the players "
                    "and the client the same file, in the same order.",
                )
        self._connection = Connection(JOB, players, own_address)
        self._watch: Watch | None = None
        self._outer_hook: Any = None
        self._take_over()
        self.connect_servers()

    def connect_servers(self) -> None:
        """Connects this process to the players, each of which reaches each other one and it.

        Connections from before a loss may break at their next use, so that new ones are tried.
        Raises PlayerLostError if a player was lost meanwhile, or not reached in the time to join.
        """
        keep_order()
        let_threads_run()
        try:
            while not self._reaches_all():
                time.sleep(_PAUSE)
        except tf.errors.OpError as error:
            lost = self._explain(error)
            self.close()
            if lost is None:
                raise
            raise lost from error

    def _reaches_all(self) -> bool:
        try:
            self._connection.open()
            exchange([player.device_name for player in self.players])
        except tf.errors.UnavailableError:
            silent = self._watch is not None and self._watch.explain() is not None
            if silent or time.monotonic() > self._join_until:
                raise
            return False
        return True

    def _who(self, name: str) -> str:
        """Says who answers at a player's address, by the place that it has in its own file."""
        job, _, number = task_of(self._first[name]).rpartition("/task:")
        if job != f"/job:{JOB}/replica:0":
            return "another programme"
        names = dict(enumerate(player.name for player in self.players))
        here = names.get(int(number), "none")
        return f"number {int(number) + 1} in its own file, which is {here} in this file,"

    def get_player(self, name_or_player: Any) -> Any:
        """Returns the player of this name."""
        player = super().get_player(name_or_player)
        if player is None:
            names = one_of(player.name for player in self.players)
            raise ArgumentError("player", name_or_player, names, "Name it in the file.")
        return player

    def close(self) -> None:
        """Stops watching the players, which may go; entering a block watches them again."""
        if self._watch is not None:
            self._watch.stop()
            self._watch = None
            if sys.excepthook == self._report:
                sys.excepthook = self._outer_hook

    def __enter__(self) -> Self:
        self._take_over()
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

    def _take_over(self) -> None:
        """Watches these players, and no others: TensorFlow keeps one connection a process."""
        global _watching
        if self._watch is None:
            if _watching is not None:
                _watching.close()
            _watching = self
            self._watch = Watch(self._statuses, self._first, self._connection.break_off)
            self._watch.start()
            self._outer_hook, sys.excepthook = sys.excepthook, self._report

    def _explain(self, error: BaseException | None) -> PlayerLostError | None:
        if self._watch is None or not isinstance(error, tf.errors.OpError):
            return None
        return self._watch.explain() or broken_link(error, JOB, self._statuses.addresses)

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


_watching: RemotePlayers | None = None


def remote_config(
    file: str | Path, *, join_timeout: float = 60.0, own_address: str | None = None
) -> RemotePlayers:
    """Connects to the players that `pea players` started, and returns their configuration.

    Pass the result to ``tfe.set_config(...)``. From then on the loss of a player is an error, see
    `RemotePlayers`. A later call connects again, also to players that were started anew,
    and ends the watch of the configuration before.

    Args:
        file: names and addresses, see `read_players`; the players were given the same.
        join_timeout: seconds within which all players must answer, and reach each other.
        own_address: HOST:PORT at which the players reach this process, which listens there for the
            rest of its life; by default the address of this host on the way to them, and a free
            port. Players ask it for what the script hands to them within a graph.

    Raises:
        ArgumentError: the file or `own_address` is wrong, or a player has other versions of this
            package, TF Encrypted or TensorFlow.
        PlayerLostError: a player was silent or out of reach for too long, or is another one than
            the file says.

    Examples:
        >>> tfe_ext.remote_config("missing.json")
        Traceback (most recent call last):
            ...
        extensions.errors.ArgumentError: players must be a JSON file, not 'missing.json'. ...
    """
    check_seconds("join_timeout", join_timeout)
    return RemotePlayers(read_players(file), join_timeout, own_address)
