"""The programme of a third party that a launcher started: it ends with its parties or launcher.

Run as ``python -m crypten_ext.third_party`` by `crypten_ext.processes.dealing`; its control channel
carries signs of life alone.
"""

import os

import torch

from crypten_ext.third_party.server import serve
from extensions.runs.processes import open_channel


def main() -> None:
    """One run is dealt for."""
    open_channel()
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    serve()


if __name__ == "__main__":
    main()
