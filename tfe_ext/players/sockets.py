"""The connections of this process, TensorFlow's among them, to which it gives no handle."""

import ipaddress
import math
import os
import socket
import stat
import sys
from collections.abc import Collection, Iterator
from contextlib import suppress

_INTERNET = (socket.AF_INET, socket.AF_INET6)
_PROBES = 3
_LAST_RECEIVED, _TOLD = 52, 56
"""Where Linux's `tcp_info` has the milliseconds since data last came, and where they end."""


def break_off(ends: Collection[tuple[str, int]]) -> None:
    """Ends this process's connections to these hosts and ports, so that no call waits for them.

    A call under way fails at once, and so does one that waits for a new connection.
    """
    for connection in _sockets():
        with connection, suppress(OSError):
            if connection.family in _INTERNET:
                host, port, *_ = connection.getpeername()
                if (_of_ipv4(host), port) in ends:
                    connection.shutdown(socket.SHUT_RDWR)


def end_if_silent(seconds: int) -> None:
    """Lets the kernel end each connection of this process whose other end is silent for so long.

    The other end is its host's kernel, which answers for a process that is stopped or busy; a host
    that is gone, cut off, or has started anew does not. For connections made later, call it again.
    """
    pause = max(1, seconds // (_PROBES + 1))
    options = {
        "TCP_KEEPIDLE": pause,
        "TCP_KEEPINTVL": pause,
        "TCP_KEEPCNT": _PROBES,
        "TCP_USER_TIMEOUT": 1000 * seconds,  # of what was sent and not acknowledged
    }
    for connection in _sockets():
        with connection, suppress(OSError):  # of another kind
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in options.items():
                if hasattr(socket, option):  # Linux has them all
                    connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def close_to_other_hosts(port: int) -> None:
    """Lets nobody but processes of this host reach a port at which this process listens.

    The listening sockets are bound to the loopback device, whatever their address is, so that the
    kernel refuses all that comes in another way; what had come before is broken off.

    Raises:
        OSError: this is not Linux, or the system does not allow it (before Linux 5.7 it is root's).
    """
    if not hasattr(socket, "SO_BINDTODEVICE"):
        raise OSError("only Linux binds a socket to a device")
    for one in _sockets_at(port):
        if one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            one.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo\0")
    for one in _sockets_at(port):
        with suppress(OSError):  # one that listens has no other end
            if not is_loopback(one.getpeername()[0]):
                one.shutdown(socket.SHUT_RDWR)


def is_loopback(host: str) -> bool:
    """Whether a host's name or address means this host alone, whoever says it."""
    try:
        found = {str(end[0]) for *_, end in socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)}
    except OSError:  # a name that is unknown here
        return False
    return all(ipaddress.ip_address(_of_ipv4(each)).is_loopback for each in found)


def _of_ipv4(address: str) -> str:
    return address.partition("%")[0].removeprefix("::ffff:")


def quiet_for() -> float:
    """Returns for how many seconds no other end of a connection has sent this process anything.

    Edge cases:
        Without any connection it is infinite; where the kernel does not tell it is 0.
    """
    if sys.platform != "linux":
        return 0.0
    quiet = [math.inf]
    for connection in _sockets():
        with connection, suppress(OSError):
            connection.getpeername()  # a socket that listens has none
            told = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TOLD)
            quiet.append(int.from_bytes(told[_LAST_RECEIVED:_TOLD], sys.byteorder) / 1000)
    return min(quiet)


def _sockets_at(port: int) -> Iterator[socket.socket]:
    """Yields those sockets whose own end is this port of the internet's protocols."""
    for one in _sockets():
        with one:
            if one.family in _INTERNET and one.getsockname()[1] == port:
                yield one


def _sockets() -> Iterator[socket.socket]:
    """Yields the sockets of this process, each by a descriptor of its own."""
    names: list[str] = []
    with suppress(OSError):  # no descriptor is left to list the others by
        names = os.listdir("/dev/fd")
    for name in names:
        with suppress(OSError):
            if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                yield socket.socket(fileno=os.dup(int(name)))
