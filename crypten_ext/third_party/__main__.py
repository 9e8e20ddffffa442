"""The programme of a third party that a launcher started: it ends with its parties or launcher.

Run as ``python -m crypten_ext.third_party`` by `crypten_ext.processes.dealing`; its control channel
carries only signs of life.
"""

import os
import sys

import torch

from crypten_ext.third_party.server import serve
from crypten_ext.transport.meeting import join_if_listening
from extensions.machine import keep_memory
from extensions.runs.processes import open_channel


def main() -> None:
    """Deals for one run."""
    open_channel()
    keep_memory()
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    join_if_listening(sys.argv[1:], third_parties=1)
    serve()


if __name__ == "__main__":
    main()
