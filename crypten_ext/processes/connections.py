"""Connections that a process opened, so that a loss ends what is blocked in one of them."""

import os
import socket
from collections.abc import Iterable
from contextlib import suppress

from extensions.transport.kernel import INTERNET, cut, own_sockets


class Connections:
    """The connections that this process opens from here on."""

    def __init__(self) -> None:
        self._older = {number: _inode(one) for number, one in own_sockets()}

    def include(self, descriptors: Iterable[int]) -> None:
        """These count as well, although they may have been opened before."""
        for descriptor in descriptors:
            self._older.pop(descriptor, None)

    def cut(self) -> None:
        """Whoever reads or writes one of them gets an error, here and at the other end."""
        for descriptor, one in own_sockets():
            with suppress(OSError):  # one that listens has no other end
                is_older = self._older.get(descriptor) == _inode(one)
                if not is_older and one.family in INTERNET and one.getpeername():
                    cut(one)


def _inode(one: socket.socket) -> int:
    return os.fstat(one.fileno()).st_ino
