"""The programme of a dealer that a launcher started: it ends with its parties or its launcher.

Run as ``python -m crypten_ext.dealer PARTIES LISTENER_FD`` by `crypten_ext.processes.dealing`.
"""

import os
import socket
import sys

import torch

from crypten_ext.dealer.server import serve
from extensions.errors import PeaError
from extensions.machine import keep_memory
from extensions.runs.processes import end_with, open_channel
from extensions.runs.processes.credentials import own_credentials


def main() -> None:
    """Deals for one run."""
    open_channel()
    parties, descriptor = (int(argument) for argument in sys.argv[1:])
    keep_memory()
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    with socket.socket(fileno=descriptor) as listener:
        try:
            serve(listener, parties, local=own_credentials())
        except PeaError as error:
            print(error, file=sys.stderr, flush=True)
            end_with(error, 1)


if __name__ == "__main__":
    main()
