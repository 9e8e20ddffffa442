"""Two connections of which each gets what the other sends; either may be of TLS."""

import select
import socket
import ssl
from contextlib import suppress

from extensions.transport.kernel import ask_whether_alive

_AT_ONCE = 1 << 18
_ASKED, _SILENCE = 3, 20
"""Seconds after which a silent host is asked whether it is there, and after which one that
acknowledges nothing is lost, as between players."""
_WAITS = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


def hand_on(one: socket.socket, other: socket.socket) -> None:
    """Hands on until an end is closed or lost, and then closes both; 256 kB of memory.

    One thread does it, since two must not use a connection of TLS at once.
    """
    waiting = {one: b"", other: b""}
    with one, other, suppress(OSError):
        for each in waiting:
            each.setblocking(False)
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            ask_whether_alive(each, _ASKED, _SILENCE)
        while True:
            moved = [_move(*ends, waiting) for ends in ((one, other), (other, one))]
            if None in moved:
                return
            if not any(moved):
                _wait(one, other, waiting)


def _move(
    source: socket.socket, sink: socket.socket, waiting: dict[socket.socket, bytes]
) -> bool | None:
    """Whether anything was moved towards the sink; None at the end."""
    with suppress(*_WAITS):
        if waiting[sink]:
            waiting[sink] = waiting[sink][sink.send(waiting[sink]) :]
            return True
        waiting[sink] = source.recv(_AT_ONCE)
        return True if waiting[sink] else None
    return False


def _wait(one: socket.socket, other: socket.socket, waiting: dict[socket.socket, bytes]) -> None:
    poll = select.poll()
    for end, far in ((one, other), (other, one)):
        wanted = (select.POLLOUT if waiting[end] else 0) | (0 if waiting[far] else select.POLLIN)
        poll.register(end, wanted)
    poll.poll()
