"""TCP connections of this process, and what each of them carried, by the kernel's count.

What is counted is payload: not the headers of TCP and IP, and not what TCP sends again because
it was lost. Linux alone tells it, from 4.19 on.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterable
from contextlib import closing, suppress
from dataclasses import dataclass

from extensions.transport.kernel import INTERNET, carried_by


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
            if one.family in INTERNET and one.type == socket.SOCK_STREAM:
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
