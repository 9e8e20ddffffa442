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
from extensions.transport.hello import MalformedError

VISITORS = 64
"""Connections in their handshake at a time: the oldest leaves for the newest."""
_REMEMBERED = 20
_BREATHER = 0.05

_Guest = TypeVar("_Guest")


class Lobby(ABC, Generic[_Guest]):
    """Takes connections until the `with` block ends; each handshake has a thread of its own.

    Args:
        listener: where everybody connects; it is closed in the end.

    Attributes:
        change: held where guests come, are seen and go; told whenever any of that happened.

    Guarantees:
        no connection keeps another waiting, and `VISITORS` are in at a time.
    """

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._visitors: OrderedDict[socket.socket, None] = OrderedDict()
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
            visitors = [*self._visitors]
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()
        for connection in visitors:
            connection.close()

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
            except OSError:
                if not self.is_open:
                    return
                self._make_room(0)  # no descriptor is free, or whoever came has gone
                time.sleep(_BREATHER)
                continue
            with self.change:
                if not self.is_open:
                    connection.close()
                    return
                self._visitors[connection] = None
            self._make_room(VISITORS)
            threading.Thread(target=self._attend, args=(connection,), daemon=True).start()

    def _make_room(self, most: int) -> None:
        """The oldest visitor leaves if there are more."""
        with self.change:
            if len(self._visitors) > most:
                oldest, _ = self._visitors.popitem(last=False)
                with suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)

    def _attend(self, connection: socket.socket) -> None:
        guest, reason = None, "an unexpected error"
        try:
            guest = self.receive(connection)
        except (PeaError, OSError, MalformedError) as error:
            reason = str(error)
        finally:
            with self.change:
                self._visitors.pop(connection, None)
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
