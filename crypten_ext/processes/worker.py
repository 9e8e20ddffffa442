"""The programme of one party that a launcher started: it answers tasks until the launcher goes.

Run as ``python -m crypten_ext.processes.worker CONTROL_FD LAUNCHER_PID`` by
`crypten_ext.processes.launch.Parties`. The control channel has file descriptors of its own, so
nothing that a task prints can reach it. One frame is one pickled pair (kind, body); an empty frame
means "I am alive" on the way to the launcher and "leave" on the way to the party.
"""

from __future__ import annotations

import importlib
import operator
import os
import pickle
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

from crypten_ext.processes.failures import Failure
from extensions.runs.processes import ORPHANED, die_with

THIRD_PARTY = "CRYPTEN_THIRD_PARTY"
"""Set in the environment where CrypTen's third party joins too."""
BEAT_INTERVAL = 1.0


class Context:
    """What a task may know and say: its rank, the number of parties, and a way to emit events."""

    def __init__(self, rank: int, world_size: int, channel: Channel) -> None:
        self.rank = rank
        self.world_size = world_size
        self._channel = channel

    def emit(self, event: dict[str, Any]) -> None:
        """The launcher's `on_event` gets (rank, event), in the order in which a rank emits."""
        self._channel.say("event", event)


class Channel:
    """A process's end of the control channel, with signs of life; threads may share it.

    The process ends when its launcher does.
    """

    def __init__(self, control: Connection) -> None:
        self._control = control
        self._lock = threading.Lock()
        self.tasks: SimpleQueue[bytes] = SimpleQueue()
        for loop in (self._listen, self._beat):
            threading.Thread(target=loop, daemon=True).start()

    def say(self, kind: str, body: object) -> None:
        """The launcher gets (kind, body)."""
        frame = pickle.dumps((kind, body), protocol=pickle.HIGHEST_PROTOCOL)
        with self._lock:
            self._control.send_bytes(frame)

    def _beat(self) -> None:
        with suppress(OSError):
            while True:
                with self._lock:
                    self._control.send_bytes(b"")
                time.sleep(BEAT_INTERVAL)

    def _listen(self) -> None:
        """The process ends as soon as the launcher's end of the channel is closed."""
        try:
            while True:
                self.tasks.put(self._control.recv_bytes())
        except (EOFError, OSError):
            os._exit(ORPHANED)


def _join_computation() -> None:
    """CrypTen is initialised with the environment's rank, rendezvous and third party, if any."""
    import torch

    import crypten

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    if THIRD_PARTY in os.environ:
        crypten.cfg.mpc.provider = "TTP"
    crypten.init()


def _perform(context: Context, frame: bytes) -> Any:
    path, arguments = pickle.loads(frame)
    module, _, name = path.partition(":")
    task = operator.attrgetter(name)(importlib.import_module(module))
    return task(context, **arguments)


def _report(channel: Channel, kind: str, work: Callable[[], Any]) -> None:
    """The launcher gets (kind, result), or ("failed", why) if there is no result to send."""
    try:
        channel.say(kind, work())
    except BaseException as error:
        channel.say("failed", Failure.of(error))


def main() -> None:
    """The party serves its launcher until it is told to leave; a failure is told, not fatal.

    After a failure the sockets to the other parties stay open, so that no peer sees a broken
    connection and is mistaken for the party that failed first.
    """
    control_fd, launcher_pid = int(sys.argv[1]), int(sys.argv[2])
    die_with(launcher_pid)
    os.set_inheritable(control_fd, False)
    channel = Channel(Connection(control_fd))
    context = Context(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), channel)
    _report(channel, "ready", _join_computation)
    while frame := channel.tasks.get():
        _report(channel, "done", partial(_perform, context, frame))


if __name__ == "__main__":
    from crypten_ext.processes.worker import main as _main  # one copy of the classes above, not two

    _main()
