"""What the network between two processes does: a round trip and a bulk transfer, measured."""

import json
import os
import socket
import statistics
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

from benchmarks.network.profiles import Link
from extensions.errors import EmulationError

VARIABLE = "PEA_BENCHMARK_NETWORK"
_ROUND_TRIPS, _SECONDS = 200, 0.25
"""At most so many round trips in about so long, but at least `_FEWEST`; and so long a transfer."""
_FEWEST = 9
_UNLIMITED = 1e9
_CHUNK = 1 << 18
_PATIENCE = 60.0
_RATE_SLACK = 1.02


def current() -> dict[str, Any] | None:
    """Returns what was measured of the network that this process runs in; None without one.

    The keys: profile, "one-way ms", "Mbit/s" (None: no limit), means ("switch", "netem" or, for the
    profile loopback, "as it is"), and measured: "round trip ms", "bulk Mbit/s".
    """
    text = os.environ.get(VARIABLE)
    return None if text is None else json.loads(text)


def shown(found: dict[str, Any]) -> str:
    """Returns it in one line."""
    rate = "no limit" if found["Mbit/s"] is None else f"{found['Mbit/s']:g} Mbit/s"
    return (
        f"network {found['profile']} ({found['means']}): {found['one-way ms']:g} ms one-way, "
        f"{rate} each way of each connection; measured: round trip "
        f"{found['round trip ms']:.3f} ms, bulk {found['bulk Mbit/s']:.0f} Mbit/s"
    )


def measure(link: Link, means: str) -> dict[str, Any]:
    """Returns what `current` will, measured over 127.0.0.1 in this process's namespace.

    Raises:
        EmulationError: a round trip takes less than twice the delay, or data come faster than the
            rate: the network is not what it should be.
    """
    found = {"profile": link.profile, "one-way ms": link.delay_ms, "Mbit/s": link.mbit}
    try:
        with _connection() as near:
            trip = _round_trip(near, link)
            bulk = _bulk(near, link, trip)
    except OSError as error:
        raise EmulationError(
            "a connection over 127.0.0.1", error, "Try a faster network."
        ) from error
    found |= {"means": means, "round trip ms": 1000 * trip, "bulk Mbit/s": bulk}
    too_fast = link.mbit is not None and bulk > _RATE_SLACK * link.mbit
    if too_fast or 1000 * trip < 2 * link.delay_ms:
        raise EmulationError("delay and rate", shown(found), "This kernel treats them otherwise.")
    return found


@contextmanager
def _connection() -> Iterator[socket.socket]:
    """A connection, the other end of which returns 1 byte for each 8-byte number of bytes."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname(), timeout=_PATIENCE)
        far, _ = server.accept()
    with near, far:
        for end in (near, far):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        other = threading.Thread(target=_answer, args=(far,))
        other.start()
        try:
            yield near
        finally:
            far.shutdown(socket.SHUT_RDWR)
            other.join()


def _answer(far: socket.socket) -> None:
    buffer = bytearray(_CHUNK)
    while far.recv_into(buffer, 8, socket.MSG_WAITALL) == 8:
        left = int.from_bytes(buffer[:8], "big")
        while left:
            received = far.recv_into(buffer, min(left, _CHUNK))
            if not received:
                return
            left -= received
        far.sendall(b"\0")


def _exchange(near: socket.socket, size: int) -> float:
    """Returns the seconds until `size` bytes are known to have arrived."""
    chunk = bytes(_CHUNK)
    started = perf_counter()
    near.sendall(size.to_bytes(8, "big"))
    for sent in range(0, size, _CHUNK):
        near.sendall(chunk[: min(_CHUNK, size - sent)])
    near.recv(1, socket.MSG_WAITALL)
    return perf_counter() - started


def _round_trip(near: socket.socket, link: Link) -> float:
    _exchange(near, 0)
    wanted = _SECONDS / max(2 * link.delay_ms / 1000, 1e-9)
    trips = int(min(max(wanted, _FEWEST), _ROUND_TRIPS))
    return statistics.median(_exchange(near, 0) for _ in range(trips))


def _bulk(near: socket.socket, link: Link, trip: float) -> float:
    """Returns Mbit/s of a transfer that lasts some round trips, after one that ended slow start."""
    bits = (_UNLIMITED if link.mbit is None else 1e6 * link.mbit) * max(_SECONDS, 8 * trip)
    size = max(int(bits / 8), 1)
    _exchange(near, size)
    return 8e-6 * size / _exchange(near, size)
