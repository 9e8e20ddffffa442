"""The connections of this process, TensorFlow's among them, to which it gives no handle."""

import ctypes
import ipaddress
import math
import select
import socket
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from extensions.transport.kernel import INTERNET, ask_whether_alive, cut, own_sockets, unheard_for

_BIND_TO_DEVICE, _LOOPBACK = 25, b"lo"
"""Linux's SO_BINDTODEVICE, which every user may set once from Linux 5.7 on."""
_LISTENS, _UNTIL_CLOSED, _INODE = "0A", ("01", "03", "08"), 9
"""In Linux's tables of connections: states, those of a handshake and of what may not be accepted
yet among them, and which field has the number of the socket, which is 0 without a descriptor."""
_MAPPED = bytes(10) + b"\xff\xff"
"""How an address of IPv4 begins as one of IPv6."""
_PAUSE, _LONGEST = 0.02, 30.0
"""Seconds between two looks, and of all."""


def break_off(ends: Collection[tuple[str, int]]) -> None:
    """Ends this process's connections to these hosts and ports, so that no call waits for them.

    A call under way fails at once, and so does one that waits for a new connection.
    """
    for _, connection in own_sockets():
        with suppress(OSError):
            if connection.family in INTERNET:
                host, port, *_ = connection.getpeername()
                if (_of_ipv4(host), port) in ends:
                    cut(connection)


def end_if_silent(seconds: int) -> None:
    """Lets the kernel end each connection of this process whose other end is silent for so long.

    The other end is its host's kernel, which answers for a process that is stopped or busy; a host
    that is gone, cut off, or has started anew does not. Call it again for later connections.
    """
    for _, connection in own_sockets():
        ask_whether_alive(connection, max(1, seconds // 4), seconds)


def close_to_other_hosts(port: int) -> None:
    """Lets nobody but processes of this host reach a port at which this process listens.

    The listening sockets are bound to the device of loopback, whatever their address is: no
    handshake of another host begins any more. Connections that are there, accepted or not, are
    aborted, with what was not read of them, and handshakes that had begun are waited for: some
    three seconds if the other host stays silent. While a connection of another host waits to be
    accepted, this host's own that wait are aborted too. When it returns, the kernel has no
    connection of another host that could still be read from.

    Raises OSError if this is not Linux, the system does not allow it or does not tell which
    connections there are, nothing listens at the port, or a connection does not end.
    """
    if sys.platform != "linux":
        raise OSError("only Linux can filter a socket's packets by device")
    listening = 0
    for one in _sockets_at(port):
        if _listens(one):
            _bind_to_loopback(one)
            listening += 1
    if not listening:
        raise OSError(f"no process listens at port {port}")
    end = time.monotonic() + _LONGEST
    while time.monotonic() < end:
        time.sleep(_PAUSE)  # a packet that had passed before is through
        if not _is_reached_from_outside(port):
            return
        _abort_what_came_from_outside(port)
    raise TimeoutError(f"connections of other hosts to port {port} do not end")


def _bind_to_loopback(listening: socket.socket) -> None:
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_SYNCNT, 1)  # answers a handshake twice
    bound = listening.getsockopt(socket.SOL_SOCKET, _BIND_TO_DEVICE, 16)
    if bound.rstrip(b"\0") != _LOOPBACK:
        listening.setsockopt(socket.SOL_SOCKET, _BIND_TO_DEVICE, _LOOPBACK)


def _is_reached_from_outside(port: int) -> bool:
    """Whether somebody could read what another host has sent to the port, now or later."""
    tables = Path("/proc/thread-self/net")
    for table in (tables / "tcp", *tables.glob("tcp6")):
        for line in table.read_text().splitlines()[1:]:
            _, own, far, state, *_ = fields = line.split()
            if int(own.partition(":")[2], 16) != port or state == _LISTENS:
                continue
            is_readable = state in _UNTIL_CLOSED or fields[_INODE] != "0"
            if is_readable and not _address(far.partition(":")[0]).is_loopback:
                return True
    return False


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Returns an address of the kernel's tables, whose words are in this machine's order."""
    words = [int(text[at : at + 8], 16) for at in range(0, len(text), 8)]
    packed = b"".join(word.to_bytes(4, sys.byteorder) for word in words)
    return ipaddress.ip_address(packed.removeprefix(_MAPPED))


def _abort_what_came_from_outside(port: int) -> None:
    for one in _sockets_at(port):
        with suppress(OSError):  # of a connection that has ended
            if _listens(one):
                _abort_what_waits(one)
            elif not is_loopback(one.getpeername()[0]):
                _abort(one)


def _abort_what_waits(listening: socket.socket) -> None:
    """Aborts all connections that are not accepted yet, which cannot be told apart before."""
    waiting = select.poll()
    waiting.register(listening, select.POLLIN)
    while waiting.poll(0):
        with listening.accept()[0] as one:
            _abort(one)


def _abort(connection: socket.socket) -> None:
    """Ends it at once; `shutdown` would leave what had come to be read."""
    nowhere = bytes(16)  # an address of the family AF_UNSPEC
    ctypes.CDLL(None).connect(connection.fileno(), nowhere, len(nowhere))


def _listens(one: socket.socket) -> bool:
    return bool(one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


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

    Infinite without any connection, and 0 where the kernel does not tell.
    """
    quiet = [math.inf]
    for _, connection in own_sockets():
        with suppress(OSError):
            if connection.family in INTERNET and connection.getpeername():  # one that listens: none
                quiet.append(unheard_for(connection))
    return min(quiet)


def _sockets_at(port: int) -> Iterator[socket.socket]:
    """Yields those sockets whose own end is this port of the internet's protocols."""
    for _, one in own_sockets():
        if one.family in INTERNET and one.getsockname()[1] == port:
            yield one
