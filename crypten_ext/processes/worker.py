"""The programme of one party that a launcher started: it performs tasks until the launcher goes.

Run as a module by `crypten_ext.processes.launch.Parties`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from extensions.machine import cores_of_each, keep_memory
from extensions.runs.processes import Channel, open_channel, serve

PROGRAM = "crypten_ext.processes.worker"
THIRD_PARTY = "CRYPTEN_THIRD_PARTY"
"""Set in the environment where CrypTen's third party joins too."""


def environment_of(parties: int, folder: str, own: Mapping[str, str]) -> dict[str, str]:
    """Returns what the environments of all parties of one machine have in common.

    They meet in `folder`; `own` are further variables, over those of this process.
    """
    return {
        **os.environ,
        "OMP_NUM_THREADS": str(cores_of_each(parties)),
        **own,
        "DISTRIBUTED_BACKEND": "gloo",
        "GLOO_SOCKET_IFNAME": "lo" if sys.platform == "linux" else "lo0",
        "RENDEZVOUS": f"file://{folder}/rendezvous",
        "WORLD_SIZE": str(parties),
    }


class Context:
    """What a task may know and say: its rank, the number of parties, and a way to emit events."""

    def __init__(self, rank: int, world_size: int, channel: Channel) -> None:
        self.rank = rank
        self.world_size = world_size
        self._channel = channel

    def emit(self, event: dict[str, Any]) -> None:
        """Has the launcher's `on_event` get (rank, event), in the order in which a rank emits."""
        self._channel.say("event", event)


def _join_computation() -> None:
    """CrypTen is initialised with the environment's rank, rendezvous and third party, if any."""
    import torch

    from crypten_ext.transport.meeting import join_if_listening

    import crypten

    keep_memory()
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    if THIRD_PARTY in os.environ:
        crypten.cfg.mpc.provider = "TTP"
    join_if_listening(sys.argv[1:], third_parties=THIRD_PARTY in os.environ)
    crypten.init()


def main() -> None:
    """Serves the launcher until told to leave; a failure is told, not fatal.

    After a failure the sockets to the other parties stay open, so that no peer sees a broken
    connection and is mistaken for the party that failed first.
    """
    channel = open_channel()
    channel.answer("ready", _join_computation)
    serve(channel, Context(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), channel))


if __name__ == "__main__":
    from crypten_ext.processes.worker import main as _main  # one copy of the class above, not two

    _main()
