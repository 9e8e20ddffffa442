"""No process outlives the one that started it, even if it is stopped or has not begun yet."""

from __future__ import annotations

import ctypes
import functools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any

ORPHANED = 71
"""Exit status of a process whose launcher is gone."""
_ON_LINUX = sys.platform == "linux"
_PR_SET_PDEATHSIG, _SIGKILL = 1, int(signal.SIGKILL)
_libc = ctypes.CDLL(None)

_Order = tuple["Future[subprocess.Popen[bytes]]", Callable[[], "subprocess.Popen[bytes]"]]


def die_with(launcher: int) -> None:
    """The kernel kills this process when its launcher dies, even while this process is stopped.

    Linux only; elsewhere the control channel has to tell. The kernel watches the thread that
    started the process, so that a launcher passes 0 unless that thread stays.

    Args:
        launcher: its process id; 0 for no effect.
    """
    if launcher and _ON_LINUX:
        _libc.prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)
        if os.getppid() != launcher:
            os._exit(ORPHANED)


def start(
    module: str,
    *arguments: str,
    env: Mapping[str, str],
    descriptors: Sequence[int],
    output: int | None,
) -> subprocess.Popen[bytes]:
    """Returns a Python process that dies with this one from its first instruction on (`die_with`).

    It leads a session of its own and reads nothing.

    Args:
        module: what it runs.
        arguments: the module's; the numbers of its descriptors follow them.
        env: its environment, but for PYTHONPATH, which is this process's path.
        descriptors: what it inherits.
        output: descriptor that it prints to; None for this process's.
    """
    program = [sys.executable, "-P", "-X", "faulthandler", "-m", module]
    command = [*program, *arguments, *map(str, descriptors)]
    options: dict[str, Any] = {
        "env": {**env, "PYTHONPATH": os.pathsep.join(p or os.getcwd() for p in sys.path)},
        "stdin": subprocess.DEVNULL,
        "stdout": output,
        "stderr": output,
        "pass_fds": descriptors,
        "start_new_session": True,
    }
    if _ON_LINUX:
        options["preexec_fn"] = functools.partial(die_with, os.getpid())

    def order() -> subprocess.Popen[bytes]:
        return subprocess.Popen(command, **options)

    started: Future[subprocess.Popen[bytes]] = Future()
    _orders(os.getpid()).put((started, order))
    return started.result()


@functools.cache
def _orders(process: int) -> SimpleQueue[_Order]:
    """Returns the orders of a thread of this process that starts others, and stays to its end."""
    orders: SimpleQueue[_Order] = SimpleQueue()
    threading.Thread(target=_carry_out, args=[orders], daemon=True).start()
    return orders


def _carry_out(orders: SimpleQueue[_Order]) -> None:
    while True:
        started, order = orders.get()
        try:
            started.set_result(order())
        except BaseException as error:
            started.set_exception(error)
