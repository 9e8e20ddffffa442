"""The programme of a third party that a launcher started: it ends with its parties or launcher.

Run as ``python -m crypten_ext.third_party CONTROL_FD LAUNCHER_PID``; its control channel carries
signs of life only.
"""

import os
import sys
from multiprocessing.connection import Connection

import torch

from crypten_ext.processes.worker import Channel
from crypten_ext.third_party.server import serve
from extensions.runs.processes import die_with


def main() -> None:
    """One run is dealt for."""
    control_fd, launcher_pid = int(sys.argv[1]), int(sys.argv[2])
    die_with(launcher_pid)
    os.set_inheritable(control_fd, False)
    Channel(Connection(control_fd))
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    serve()


if __name__ == "__main__":
    main()
