"""Bytes that other processes sent and received over TCP, by the kernel's count; Linux only.

The kernel's socket monitor (linux/inet_diag.h) is asked for the connections of this network
namespace; /proc says whose they are.
"""

import os
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path

_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY = 4, 20
_REQUEST_DUMP, _ERROR, _DONE = 0x301, 2, 3
_HEADER, _ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=HH")
_INFO = 2
"""INET_DIAG_INFO: struct tcp_info."""
_BYTES = struct.Struct("=120xQQ")
"""Its tcpi_bytes_acked and tcpi_bytes_received."""
_INODE, _MESSAGE = 68, 72
"""Where struct inet_diag_msg has the inode, and how long it is."""


def carried(pids: Sequence[int]) -> list[tuple[int, int]]:
    """Returns the bytes that each process sent and received, over its present connections.

    What is sent and not acknowledged yet is left out. TCP counts the opening of a connection as one
    byte of the side that opens it.

    Raises:
        OSError: the kernel refuses to tell, or a process is not this user's or has gone.
    """
    by_inode = dict(row for family in (socket.AF_INET, socket.AF_INET6) for row in _dump(family))
    found = []
    for pid in pids:
        own = [by_inode[inode] for inode in _inodes(pid) if inode in by_inode]
        found.append((sum(sent for sent, _ in own), sum(received for _, received in own)))
    return found


def _inodes(pid: int) -> set[int]:
    """The process's sockets; a forked child's too, if it is asked about."""
    inodes = set()
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            link = os.readlink(path)
            if link.startswith("socket:["):
                inodes.add(int(link[8:-1]))
    return inodes


def _dump(family: int) -> Iterator[tuple[int, tuple[int, int]]]:
    """The inode of each TCP socket, and the bytes that it sent and received."""
    body = struct.pack("=BBBBI", family, socket.IPPROTO_TCP, 1 << (_INFO - 1), 0, 0xFFFFFFFF)
    body += bytes(48)
    with closing(socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG)) as kernel:
        size = _HEADER.size + len(body)
        kernel.send(_HEADER.pack(size, _SOCK_DIAG_BY_FAMILY, _REQUEST_DUMP, 1, 0) + body)
        while True:
            data = kernel.recv(1 << 16)
            while data:
                size, kind, *_ = _HEADER.unpack_from(data)
                message, data = data[_HEADER.size : size], data[size:]
                if kind == _DONE:
                    return
                if kind == _ERROR:
                    number = -struct.unpack_from("=i", message)[0]
                    raise OSError(number, f"no list of TCP sockets: {os.strerror(number)}")
                yield struct.unpack_from("=I", message, _INODE)[0], _bytes(message[_MESSAGE:])


def _bytes(attributes: bytes) -> tuple[int, int]:
    while len(attributes) >= _ATTRIBUTE.size:
        size, kind = _ATTRIBUTE.unpack_from(attributes)
        if kind == _INFO and size >= _ATTRIBUTE.size + _BYTES.size:
            sent, received = _BYTES.unpack_from(attributes, _ATTRIBUTE.size)
            return sent, received
        attributes = attributes[(size + 3) & ~3 :]
    return 0, 0
