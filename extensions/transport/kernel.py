"""What the kernel knows of a connection of TCP: what it carried, and when the other end was heard.

It asks an end that is silent whether it is there, and knows which sockets a process has. Linux
alone tells what was carried, from 4.19 on; elsewhere that is nothing, and everybody was heard just
now. What is counted is payload: not the headers of TCP and IP, and not what TCP sends again because
it was lost.
"""

from __future__ import annotations

import os
import select
import socket
import stat
import struct
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import NamedTuple

_INFO = struct.Struct("=3xB20xI24xII68xQ8xI52xQQ")
"""Of struct tcp_info (linux/tcp.h), as `_Info` names it."""
INTERNET = (socket.AF_INET, socket.AF_INET6)
_HUNG_UP = select.POLLERR | select.POLLHUP | getattr(select, "POLLRDHUP", 0)
_PROBES = 3


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
    for descriptor, one in own_sockets():
        with suppress(OSError):  # one that listens has no other end
            if one.family in INTERNET and one.type == socket.SOCK_STREAM:
                far = one.getpeername()[1]
                found.append(Connection(descriptor, one.getsockname()[1], far))
    return found


def own_sockets() -> Iterator[tuple[int, socket.socket]]:
    """Yields each socket of this process by its descriptor, and by a further one meanwhile."""
    names: list[str] = []
    with suppress(OSError):  # no descriptor is left to list the others by
        names = os.listdir("/dev/fd")
    for name in names:
        with suppress(OSError):
            if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                with closing(_again(int(name))) as one:
                    yield int(name), one


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


def unheard_for(connection: socket.socket) -> float:
    """Returns the seconds since the other end's process sent anything."""
    info = _info(connection)
    return 0.0 if info is None else info.last_data_received / 1000


def stopped(seconds: float) -> str:
    """Returns what is said of somebody who has been silent for so long."""
    return f"stopped answering for {seconds:g} s"


def ask_whether_alive(connection: socket.socket, every: int, unread: int) -> None:
    """Lets the kernel ask a silent host whether it is there, and end the connection if it is not.

    Args:
        connection: of TCP; of any other kind nothing changes.
        every: seconds of silence before it is asked, three times.
        unread: seconds for which what was sent may stay unread.
    """
    options = {
        "TCP_KEEPIDLE": every,
        "TCP_KEEPINTVL": every,
        "TCP_KEEPCNT": _PROBES,
        "TCP_USER_TIMEOUT": 1000 * unread,
    }
    with suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in options.items():
            if hasattr(socket, name):  # Linux has them all
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


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
    if not hasattr(socket, "TCP_INFO") or connection.family not in INTERNET:
        return None
    try:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO.size)
    except OSError:  # it was closed here
        return None
    return _Info(*_INFO.unpack(info)) if len(info) == _INFO.size else None
