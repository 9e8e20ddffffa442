"""Client apps of Flower as copies of one process that has imported what they need.

Run by a Python that has flwr::

    python -m benchmarks.instruments.flower_copies SOCKET MODULE...

A SuperExec starts ``flwr-clientapp`` for every message, which imports everything anew. Many at once
on few cores do not answer within the 30 s after which Flower gives a task to another process, and
then there are ever more of them. `stand_in` writes a command of that name that has the work done by
a copy, and ends.

A copy keeps its task by heartbeats from its first moment, and waits for its turn before it takes
its message: as many work at a time as there are cores. Else fifty that compute at once leave a new
one no moment for its first heartbeat, due 30 s after the task was given.
"""

import fcntl
import gc
import importlib
import json
import os
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from extensions.runs.processes.copies import seed_anew

COMMAND, MODULE = "flwr-clientapp", "benchmarks.instruments.flower_copies"
_RUNNING = "flwr.supernode.runtime.run_clientapp"
_ASKING = """#!{python} -IS
import json, socket, sys
with socket.socket(socket.AF_UNIX) as asking:
    asking.connect({address!r})
    asking.sendall(json.dumps(sys.argv).encode())
"""
_WAITING = 1024


def stand_in(folder: Path, address: Path) -> None:
    """Writes the command into a new folder, for PATH."""
    folder.mkdir()
    path = folder / COMMAND
    path.write_text(_ASKING.format(python=sys.executable, address=str(address)))
    path.chmod(0o700)


def main() -> None:
    """Serves until it is killed; in a copy, does what ``flwr-clientapp`` does."""
    address, *modules = sys.argv[1:]
    for module in ("flwr.supernode.cli.flwr_clientapp", *modules):
        importlib.import_module(module)
    _take_turns(Path(address).parent)
    gc.freeze()
    signal.signal(signal.SIGCHLD, _reap)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen(_WAITING)
        words = _wait_for_orders(listening)
    _begin(words)


def _wait_for_orders(listening: socket.socket) -> list[str]:
    """Forks a copy for each order; returns in a copy alone, with what it was asked to do."""
    while True:
        asking, _ = listening.accept()
        with asking, asking.makefile("rb") as order:
            words: list[str] = json.loads(order.read())
        if os.fork() == 0:
            return words


def _begin(words: list[str]) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    seed_anew()
    sys.argv = words
    sys.modules["flwr.supernode.cli.flwr_clientapp"].flwr_clientapp()


def _take_turns(folder: Path) -> None:
    """Makes copies wait before they take their message, for one of as many files as cores."""
    running: Any = importlib.import_module(_RUNNING)
    pull = running.pull_task_input

    def pull_in_turn(client: Any) -> Any:
        core = os.getpid() % (os.cpu_count() or 1)
        turn = os.open(folder / f"turn-{core}", os.O_CREAT | os.O_RDWR)
        fcntl.flock(turn, fcntl.LOCK_EX)  # the kernel opens it again when this process ends
        return pull(client)

    running.pull_task_input = pull_in_turn


def _reap(*_: Any) -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


if __name__ == "__main__":
    main()
