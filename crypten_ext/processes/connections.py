"""Connections that a process opened, so that a loss ends what is blocked in one of them."""

import os
import socket
import stat
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress


class Connections:
    """The connections that this process opens from here on."""

    def __init__(self) -> None:
        self._older = dict(_sockets())

    def include(self, descriptors: Iterable[int]) -> None:
        """These count as well, although they may have been opened before."""
        for descriptor in descriptors:
            self._older.pop(descriptor, None)

    def cut(self) -> None:
        """Whoever reads or writes one of them gets an error, here and at the other end."""
        for descriptor, inode in _sockets():
            if self._older.get(descriptor) != inode:
                with suppress(OSError), closing(socket.socket(fileno=os.dup(descriptor))) as one:
                    if one.family in (socket.AF_INET, socket.AF_INET6):
                        one.getpeername()  # one that listens has no other end
                        one.shutdown(socket.SHUT_RDWR)


def _sockets() -> Iterator[tuple[int, int]]:
    """Yields descriptor and inode of every open socket."""
    for name in os.listdir("/dev/fd"):
        with suppress(OSError):
            status = os.fstat(int(name))
            if stat.S_ISSOCK(status.st_mode):
                yield int(name), status.st_ino
