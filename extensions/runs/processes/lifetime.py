"""No process outlives the one that started it."""

import ctypes
import os
import signal
import sys
import threading

ORPHANED = 71
"""Exit status of a process whose launcher is gone."""
_PR_SET_PDEATHSIG = 1


def launcher_id() -> int:
    """Returns what a process that this thread starts has to pass to `die_with`."""
    return os.getpid() if threading.current_thread() is threading.main_thread() else 0


def die_with(launcher: int) -> None:
    """The kernel kills this process when its launcher dies, even while this process is stopped.

    Linux only; elsewhere the control channel has to tell. The kernel watches the thread that
    started the process, so that a launcher passes 0 unless that was its main thread.

    Args:
        launcher: its process id; 0 for no effect.
    """
    if launcher and sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != launcher:
            os._exit(ORPHANED)
