"""This process's connection to the players: one port for its whole life, and no endless wait.

TensorFlow keeps one connection a process, and three things of it are not as a client needs them:

- It names itself ``localhost`` with a new port at each connection, while its server keeps the first
  port: players on other hosts never find it, and after a second connection nobody does.
- A call that it streams to a player waits without end once the player is gone. Each call in a
  message of its own fails as soon as there is no connection.
- A call under way to a player that falls silent waits as long as the connection stands, which the
  kernel of a stopped or unreachable host keeps for many minutes.
"""

import os
import re
import socket
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context

from extensions.checks import check_address
from extensions.errors import ArgumentError, PlayerLostError
from tfe_ext.players.sockets import break_off, close_to_other_hosts, is_loopback
from tfe_ext.streams.devices import HERE
from tfe_ext.threads import wait_for_players

_STREAMING = "TF_ENABLE_EAGER_CLIENT_STREAMING_ENQUEUE"
_HERE = "localhost"
_PAUSE = 0.01
"""Seconds."""
_LOOPBACK = ("127.", "::1")
_CALL = re.compile(
    r"from remote target /job:(\w+)/replica:0/task:(\d+)\S* while calling /tensorflow\.([\w./]+)"
)
_FETCHING = "WorkerService/RecvTensor"
_ports: list[int] = []
"""The port of this process's own server, once it is known."""


class Connection:
    """TensorFlow's connection to players, which takes the place of any before.

    Args:
        job: of the players.
        addresses: HOST:PORT of each by name, in the order of their tasks.
        own: HOST:PORT at which the players reach this process; by default the address of this host
            on the way to them, and a free port, which stays the same for the life of the process.
            If it is given and of this host alone, the port is closed to other hosts.
    """

    def __init__(self, job: str, addresses: Mapping[str, str], own: str | None) -> None:
        self._ends = {name: _resolve(address) for name, address in addresses.items()}
        self._is_inside = own is not None and is_loopback(check_address("own_address", own)[0])
        own = self._own_address() if own is None else _checked(own)
        jobs = {job: [*addresses.values()], _HERE: [own]}
        self._cluster = tf.train.ClusterSpec(jobs)

    def open(self) -> None:
        """Connects; OpError if a player does not answer, OSError of `close_to_other_hosts`."""
        os.environ[_STREAMING] = "false"
        wait_for_players()
        with _closing(_port()) if self._is_inside else nullcontext():
            tf.config.experimental_connect_to_cluster(self._cluster, job_name=_HERE)
            context.context().ensure_initialized()  # the first time it would connect later

    def break_off(self, players: Collection[str]) -> None:
        """Ends this process's connections to these players, so that no call waits for them."""
        break_off({end for name in players for _, end in self._ends[name]})

    def _own_address(self) -> str:
        ways = [_way_to(*ends[0]) for ends in self._ends.values()]
        host = next((way for way in ways if not way.startswith(_LOOPBACK)), ways[0])
        return f"[{host}]:{_port()}" if ":" in host else f"{host}:{_port()}"


@contextmanager
def _closing(port: int) -> Iterator[None]:
    """Closes the port to other hosts once TensorFlow listens, at the block's end at the latest.

    TensorFlow listens before it asks the players who they are, and serves when all have answered.
    """
    is_over = threading.Event()

    def close() -> None:
        while not is_over.wait(_PAUSE):
            with suppress(OSError):  # nothing listens yet
                close_to_other_hosts(port)
                return

    closing = threading.Thread(target=close)
    closing.start()
    try:
        yield
    finally:
        is_over.set()
        closing.join()
    close_to_other_hosts(port)


_End = tuple[socket.AddressFamily, tuple[str, int]]


def _resolve(address: str) -> list[_End]:
    """Returns all ends that the address may mean; TensorFlow's servers listen on IPv4."""
    found = socket.getaddrinfo(*check_address("players", address), type=socket.SOCK_STREAM)
    ends = [(family, (str(end[0]), int(end[1]))) for family, _, _, _, end in found]
    return sorted(ends, key=lambda end: end[0] != socket.AF_INET)


def _way_to(family: socket.AddressFamily, end: tuple[str, int]) -> str:
    """Returns the address of this host that packets to another one carry; none is sent."""
    with socket.socket(family, socket.SOCK_DGRAM) as way:
        way.connect(end)
        host: str = way.getsockname()[0]
    return host


def _port() -> int:
    """Returns the port of this process's server; it is free if the server does not run yet."""
    if not _ports:
        with socket.create_server(("", 0)) as free:
            _ports.append(free.getsockname()[1])
    return _ports[0]


def _checked(own: str) -> str:
    _, port = check_address("own_address", own)
    if port != (_ports or [port])[0]:
        raise ArgumentError(
            "own_address", own, f"with port {_ports[0]}", "This process listens there already."
        )
    _ports[:] = [port]
    return own


def exchange(devices: Sequence[str]) -> None:
    """Sends a word from each of this process and the players' devices to each other one.

    Raises UnavailableError if one did not reach another one.
    """
    everybody = (HERE, *devices)

    def run(word: Any) -> list[Any]:
        words, sums = [], []
        for number, device in enumerate(everybody):
            with tf.device(device):
                words.append(word + number)
        for device in everybody:
            with tf.device(device):
                sums.append(tf.add_n(words))
        return sums

    tf.function(run, autograph=False)(tf.constant(0))


def broken_link(
    error: tf.errors.OpError, job: str, players: Mapping[str, str]
) -> PlayerLostError | None:
    """Returns the loss that an error tells of, though all players answer; None if of none.

    The error's text has the calls that failed, the innermost one first. Players are addresses by
    name, in the order of their tasks.
    """
    if not isinstance(error, tf.errors.UnavailableError):
        return None
    names, ends = [*players], _CALL.findall(error.message)
    called = [(names[int(task)] if place == job else None, by) for place, task, by in ends]
    (asked, method), (asking, _), *_ = *called, (None, ""), (None, "")
    if asked is not None and method == _FETCHING and asking not in (None, asked):
        reason = f"is not reached by player {asking}, though both answer this process"
    elif asked is not None:
        reason = "was not reached, though it answers now"
    elif asking is not None:
        asked, reason = asking, "does not reach this process, though it answers"
    else:
        return None
    return PlayerLostError(asked, f"at {players[asked]} {reason}")
