"""Bytes that a process's TCP connections carried, by the kernel's count; Linux only."""

import os
import socket
import stat
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_BYTES_ACKED = 120
"""Where struct tcp_info (linux/tcp.h) has tcpi_bytes_acked; tcpi_bytes_received follows."""


def carried(ports: set[int] | None = None) -> int:
    """Returns the bytes sent and received by this process over all its open connections.

    Args:
        ports: counts only connections to these ports of the other side.
    """
    total = 0
    for connection in _connections():
        with connection, suppress(OSError):
            port = connection.getpeername()[1]
            if ports is None or port in ports:
                info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
                total += sum(struct.unpack_from("QQ", info, _BYTES_ACKED))
    return total


def _connections() -> Iterator[socket.socket]:
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            descriptor = os.dup(int(name))
            if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                os.close(descriptor)
                continue
            connection = socket.socket(fileno=descriptor)
            if connection.family in (socket.AF_INET, socket.AF_INET6):
                yield connection
            else:
                connection.close()


def ports_of(pid: int) -> set[int]:
    """Returns the local ports of a process of this user."""
    inodes = set()
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            link = os.readlink(path)
            if link.startswith("socket:["):
                inodes.add(link[8:-1])
    tables = "".join(Path(f"/proc/{pid}/net/{name}").read_text() for name in ("tcp", "tcp6"))
    rows = [line.split() for line in tables.splitlines()]
    return {int(row[1].rpartition(":")[2], 16) for row in rows if row[9] in inodes}


def peak_memory(pid: int) -> int:
    """Returns the largest resident set of a process so far, in bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) << 10
