"""The programme of a dealer that a launcher started: it ends with its parties or its launcher.

Run as ``python -m crypten_ext.dealer LISTENER_FD PARTIES LAUNCHER_PID``. Standard input is open as
long as the launcher lives.
"""

import os
import socket
import sys
import threading

import torch

from crypten_ext.dealer.server import serve
from extensions.errors import PeaError
from extensions.runs.processes import ORPHANED, die_with


def _leave_with_launcher() -> None:
    os.read(0, 1)
    os._exit(ORPHANED)


def main() -> None:
    """One run is dealt for."""
    listener_fd, parties, launcher_pid = (int(argument) for argument in sys.argv[1:])
    die_with(launcher_pid)
    threading.Thread(target=_leave_with_launcher, daemon=True).start()
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    with socket.socket(fileno=listener_fd) as listener:
        try:
            serve(listener, parties)
        except PeaError as error:
            sys.exit(str(error))


if __name__ == "__main__":
    main()
