"""Processes that do not outlive those who started them."""

import ctypes
import os
import signal
import sys

ORPHANED = 71
_PR_SET_PDEATHSIG = 1


def die_with(launcher_pid: int) -> None:
    """The kernel kills this process when its launcher dies, even while this process is stopped.

    Linux only; elsewhere a closed pipe or control channel must tell. The kernel watches the thread
    that started the process, so a launcher passes 0 unless that was its main thread.
    """
    if launcher_pid and sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != launcher_pid:
            os._exit(ORPHANED)
