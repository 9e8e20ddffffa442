"""What runs on an emulated network, at both ends of a connection: plain TCP, no framework."""

import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from tests.helpers.patience import PATIENCE

BYTE = b"\0"


def rounds(number: int) -> dict[str, float]:
    """Two processes exchange a byte at the same time, again and again; returns how long it took.

    The time begins with a byte more, after which the other process starts to exchange. Also returns
    how many packets the loopback interface itself has carried.
    """
    with socket.create_server(("localhost", 0), family=socket.AF_INET) as server:
        port = server.getsockname()[1]
        # 0.0.0.0 as a destination means this host as well, and must take the same way.
        code = f"from tests.helpers.emulated_tasks import peer; peer({port}, {number})"
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        other = subprocess.Popen([sys.executable, "-c", code], env=env)
        connection, _ = server.accept()
    with connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        started = time.perf_counter()
        connection.sendall(BYTE)
        for _ in range(number):
            connection.sendall(BYTE)
            connection.recv(1)
        seconds = time.perf_counter() - started
    assert other.wait(PATIENCE) == 0
    lines = Path("/proc/net/dev").read_text().splitlines()
    (loopback,) = (line.split() for line in lines if line.lstrip().startswith("lo:"))
    return {"seconds": seconds, "bypassed": int(loopback[2])}


def peer(port: int, number: int) -> None:
    """The other process, which starts when it has received a byte."""
    with socket.create_connection(("0.0.0.0", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.recv(1)
        for _ in range(number):
            connection.sendall(BYTE)
            connection.recv(1)


def two_senders(size: int) -> float:
    """Returns the seconds in which two connections carry `size` bytes each, at the same time."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = [socket.create_connection(server.getsockname()) for _ in range(2)]
        far = [server.accept()[0] for _ in range(2)]
    ends = [threading.Thread(target=one.sendall, args=(bytes(size),)) for one in near]
    ends += [threading.Thread(target=_receive, args=(one, size)) for one in far]
    started = time.perf_counter()
    for end in ends:
        end.start()
    for end in ends:
        end.join()
    seconds = time.perf_counter() - started
    for one in near + far:
        one.close()
    return seconds


def _receive(connection: socket.socket, size: int) -> None:
    while size:
        size -= len(connection.recv(min(size, 1 << 18)))


def fail() -> None:
    raise LookupError("the task's own error")
