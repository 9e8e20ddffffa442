"""What the kernel knows of a connection of TCP: what it carried, and when the other end was heard.

Linux alone tells it, from 4.19 on; elsewhere nothing was carried, and everybody was heard just now.
What is counted is payload: not the headers of TCP and IP, and not what TCP sends again because it
was lost.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import sys
from collections.abc import Iterable
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import NamedTuple

_INFO = struct.Struct("=3xB20xI24xII68xQ8xI52xQQ")
"""Of struct tcp_info (linux/tcp.h), as `_Info` names it."""
_INTERNET = (socket.AF_INET, socket.AF_INET6)
_HUNG_UP = select.POLLERR | select.POLLHUP | getattr(select, "POLLRDHUP", 0)


class _Info(NamedTuple):
    probes: int
    unacked: int
    last_data_received: int
    last_ack_received: int
    bytes_received: int
    unsent: int
    bytes_sent: int
    bytes_again: int


def carried_by(connection: socket.socket) -> tuple[int, int]:
    """Returns the bytes of payload that a connection sent and received since it was opened.

    Sent is what was handed to the kernel, received what has come, whether it was read or not.
    """
    info = _info(connection)
    if info is None:
        return 0, 0
    return info.bytes_sent - info.bytes_again + info.unsent, info.bytes_received


@dataclass(frozen=True)
class Connection:
    """An open TCP connection.

    Attributes:
        descriptor: of its file.
        near: port at this end.
        far: port at the other one.
    """

    descriptor: int
    near: int
    far: int


def connections() -> list[Connection]:
    """Returns this process's open TCP connections; none on systems other than Linux."""
    if sys.platform != "linux":
        return []
    found = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError), closing(_again(int(name))) as one:
            if one.family in _INTERNET and one.type == socket.SOCK_STREAM:
                far = one.getpeername()[1]  # one that listens has no other end
                found.append(Connection(int(name), one.getsockname()[1], far))
    return found


def carried(descriptors: Iterable[int]) -> tuple[int, int]:
    """Returns the bytes that connections sent and received since they were opened.

    Sent is what was handed to the kernel, received what has come, whether it was read or not. One
    that is closed counts nothing.

    Args:
        descriptors: of their files.

    Cost:
        Some microseconds each.
    """
    sent = received = 0
    for descriptor in descriptors:
        with suppress(OSError), closing(_again(descriptor)) as one:
            own = carried_by(one)
            sent, received = sent + own[0], received + own[1]
    return sent, received


def _again(descriptor: int) -> socket.socket:
    """The socket by a further descriptor: closing that one leaves it open."""
    further = os.dup(descriptor)
    try:
        return socket.socket(fileno=further)
    except BaseException:
        os.close(further)
        raise


def silent_for(connection: socket.socket) -> float:
    """Returns the seconds since anything came from the other end's host.

    A host that is there answers what keeps a connection alive, every few seconds, whatever its
    processes do. One whose process does not read is asked at longer and longer intervals, so that
    it is not silent while it answers.
    """
    info = _info(connection)
    if info is None or (info.unsent and not info.unacked and info.probes <= 1):
        return 0.0
    return min(info.last_data_received, info.last_ack_received) / 1000


def hung_up(connection: socket.socket) -> bool:
    """Whether a connection broke or the other end closed it; something may be left to be read."""
    poll = select.poll()
    poll.register(connection, _HUNG_UP)
    return bool(poll.poll(0))


def cut(connection: socket.socket) -> None:
    """Whoever reads or writes the connection gets an error, or its end, in any thread."""
    with suppress(OSError):  # that of ssl.SSLSocket would go on in the clear
        socket.socket.shutdown(connection, socket.SHUT_RDWR)


def _info(connection: socket.socket) -> _Info | None:
    if not hasattr(socket, "TCP_INFO") or connection.family not in _INTERNET:
        return None
    try:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO.size)
    except OSError:  # it was closed here
        return None
    return _Info(*_INFO.unpack(info)) if len(info) == _INFO.size else None
