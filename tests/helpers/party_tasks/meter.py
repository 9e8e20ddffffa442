"""What the parties of test_meter.py do."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch

from crypten_ext import dealer
from crypten_ext.processes.meter import Meter
from crypten_ext.processes.worker import Context
from extensions.protocols.host import Traffic
from extensions.transport.kernel import carried, connections
from tests.helpers.party_tasks.dealer import use

from crypten import communicator

WORDS = 1000
METER = "crypten_ext.processes.meter"


def opening(*others: socket.socket) -> Traffic:
    """Returns the traffic of one opening, while something is sent over other connections."""
    meter = Meter()
    for other in others:
        other.sendall(bytes(50_000))
    communicator.get().all_reduce(torch.zeros(WORDS, dtype=torch.int64))
    return meter.read()


def beside_a_stranger(context: Context) -> tuple[Traffic, Traffic]:
    """Returns the traffic of an opening, and of one while something else is sent as well."""
    with stranger() as other:
        return opening(), opening(other)


@contextmanager
def stranger() -> Iterator[socket.socket]:
    """Yields a connection of this process to itself."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        far = socket.create_connection(server.getsockname())
        near, _ = server.accept()
        with far, near:
            yield far


def without_store(context: Context) -> Traffic:
    """Returns the traffic of an opening if the connection that carries it were the store's."""
    opening()
    used = max(connections(), key=lambda one: carried([one.descriptor]))
    with patch(f"{METER}.default_store", lambda: (None, used.near)):
        return opening()


def uncounted(context: Context) -> Traffic:
    """Returns the traffic of an opening where the system tells nothing of connections."""
    with patch(f"{METER}.connections", lambda: []):
        return opening()


def dealt(context: Context) -> dict[str, Any]:
    """Returns what a large tuple took, and the bytes of its correction.

    Whatever was dealt ahead comes before the correction of the small one. Nobody asks before all
    count, since the dealer sends to all what the first one asks for.
    """
    source = use("DEALER")
    shape = (200, 200)
    source.generate_additive_triple((1, 1), (1, 1), "mul", device=torch.device("cpu"))
    communicator.get().barrier()
    meter, before = Meter(), dealer.corrected_bytes()
    communicator.get().barrier()
    met = meter.read()
    source.generate_additive_triple(shape, shape, "matmul", device=torch.device("cpu"))
    source.generate_additive_triple((1, 10**5), (1, 10**5), "mul", device=torch.device("cpu"))
    traffic = meter.read()
    return {
        "since": traffic.plus(met, times=-1),
        "dealt": traffic.carried[0].dealt,
        "corrected": dealer.corrected_bytes() - before,
    }
