"""A port at which anybody may call: few visitors at a time, and none keeps another one waiting."""

from __future__ import annotations

import socket
import threading
import time
from abc import ABC, abstractmethod
from collections import OrderedDict
from contextlib import suppress
from typing import Generic, Self, TypeVar

from extensions.errors import PeaError
from extensions.transport.handshake_messages import MalformedError

VISITORS = 64
"""Connections in their handshake at a time: the oldest leaves for the newest."""
_REMEMBERED = 20
_BREATHER = 0.05

_Guest = TypeVar("_Guest")


class Acceptor(ABC, Generic[_Guest]):
    """Takes connections until the `with` block ends; each handshake has a thread of its own.

    Args:
        listener: where everybody connects; it is closed in the end.

    Attributes:
        change: held where guests come, are seen and go; told whenever any of that happened.

    Guarantees:
        no connection keeps another waiting, and `VISITORS` are in at a time, whatever they said:
        each holds two descriptors, a thread and what a handshake of TLS takes.
    """

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._visitors: OrderedDict[socket.socket, socket.socket] = OrderedDict()
        """Duplicates of their connections, which TLS does not take over."""
        self._refused: OrderedDict[str, None] = OrderedDict()
        self.change = threading.Condition()
        self.is_open = True
        self._thread = threading.Thread(target=self._accept, daemon=True)

    @abstractmethod
    def receive(self, connection: socket.socket) -> _Guest:
        """Returns what a connection has become, or closes it and raises why it is nothing."""

    @abstractmethod
    def settle(self, guest: _Guest) -> None:
        """Keeps a guest, or closes its connection; `change` is held."""

    @abstractmethod
    def close(self, guest: _Guest) -> None:
        """A guest's connection is closed: it came when all was over."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self.change:
            self.is_open = False
            self.change.notify_all()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()
        with self.change:
            while self._visitors:
                self._show_out()

    @property
    def refused(self) -> list[str]:
        """Why the latest connections came to nothing."""
        with self.change:
            return [*self._refused]

    def forget(self) -> list[str]:
        """Returns why the latest connections came to nothing, which is not told again."""
        with self.change:
            told = [*self._refused]
            self._refused.clear()
        return told

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
                self._let_in(connection)
            except (OSError, RuntimeError):
                if not self.is_open:
                    return
                with self.change:  # no descriptor or thread is free, or whoever came has gone
                    if self._visitors:
                        self._show_out()
                time.sleep(_BREATHER)

    def _let_in(self, connection: socket.socket) -> None:
        try:
            with self.change:
                self._visitors[connection] = connection.dup()
                if len(self._visitors) > VISITORS:
                    self._show_out()
            threading.Thread(target=self._attend, args=(connection,), daemon=True).start()
        except (OSError, RuntimeError):
            self._see_off(connection)
            connection.close()
            raise

    def _show_out(self) -> None:
        """The oldest visitor leaves: its thread meets the end of its connection."""
        _, oldest = self._visitors.popitem(last=False)
        with suppress(OSError):
            oldest.shutdown(socket.SHUT_RDWR)
        oldest.close()

    def _see_off(self, connection: socket.socket) -> None:
        """Whoever came by this connection is no visitor any more."""
        with self.change:
            if (duplicate := self._visitors.pop(connection, None)) is not None:
                duplicate.close()

    def _attend(self, connection: socket.socket) -> None:
        guest, reason = None, "an unexpected error"
        try:
            guest = self.receive(connection)
        except (PeaError, OSError, MalformedError) as error:
            reason = str(error)
        finally:
            with self.change:
                self._see_off(connection)
                if guest is None:
                    self._remember(reason)
                elif self.is_open:
                    self.settle(guest)
                else:
                    self.close(guest)
                self.change.notify_all()

    def _remember(self, reason: str) -> None:
        self._refused[reason] = None
        while len(self._refused) > _REMEMBERED:
            self._refused.popitem(last=False)
