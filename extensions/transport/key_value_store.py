"""Short texts by name, kept by one host and read by all: what parties tell each other beside data.

It has the methods of torch's stores that parties need to meet and to watch each other.
"""

from __future__ import annotations

import json
import ssl
import struct
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from typing import Any, Self

from extensions.errors import PeaError
from extensions.transport.kernel import cut
from extensions.transport.reconnecting import Dial

_LENGTH = struct.Struct(">I")
LARGEST = 1 << 22
"""Bytes of a message."""
_MOST = 10_000
_SECONDS = 10.0
"""In which the keeper answers."""


class StoreLostError(PeaError, RuntimeError):
    """The host that keeps the store does not answer any more."""


class KeyValueStore:
    """A store that this host keeps; each reader has a thread here until its connection ends.

    Attributes:
        watches: numbers of those who watch over it, the first 0 at every party.
    """

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._change = threading.Lock()
        self._readers: list[ssl.SSLSocket] = []
        self.watches = count()

    def set(self, key: str, value: str) -> None:
        """The name has this text from now on."""
        with self._change:
            if len(self._texts) >= _MOST and key not in self._texts:
                raise StoreLostError(f"there are {_MOST} names in the store")
            self._texts[key] = value

    def get(self, key: str) -> bytes:
        """Returns the text of a name, empty if it has none."""
        with self._change:
            return self._texts.get(key, "").encode()

    def check(self, keys: Sequence[str]) -> bool:
        """Returns whether all these names have a text."""
        with self._change:
            return all(key in self._texts for key in keys)

    def compare_set(self, key: str, expected: str, desired: str) -> bytes:
        """Returns the text of a name, which is `desired` if it had none, or `expected`."""
        with self._change:
            if self._texts.get(key, expected) == expected:
                self._texts[key] = desired
            return self._texts[key].encode()

    def clone(self) -> Self:
        """Returns the store itself: threads may share it."""
        return self

    def serve(self, connection: ssl.SSLSocket) -> None:
        """Answers a reader in a thread of its own, which ends with the connection."""
        connection.settimeout(None)
        with self._change:
            self._readers.append(connection)
        threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def close(self) -> None:
        """No reader is answered any more."""
        with self._change:
            for connection in self._readers:
                cut(connection)

    def _answer(self, connection: ssl.SSLSocket) -> None:
        try:
            with suppress(OSError, PeaError, ValueError, TypeError, KeyError, RecursionError):
                while True:
                    name, arguments = _receive(connection)
                    if name not in ("set", "get", "check", "compare_set"):
                        break
                    result = getattr(self, name)(*map(_text, arguments))
                    _send(connection, result.decode() if isinstance(result, bytes) else result)
        finally:
            with self._change, connection:
                self._readers.remove(connection)


class RemoteKeyValueStore:
    """A store that another host keeps.

    Args:
        connection: to its keeper.
        again: returns another one; None: there is none. What is asked may be asked twice then,
            which changes nothing.
        seconds: within which a connection that broke is there again.

    Cost:
        Two latencies a call.

    Raises:
        StoreLostError: by every method: its keeper is lost.
    """

    def __init__(
        self, connection: ssl.SSLSocket, again: Dial | None = None, seconds: float = 0.0
    ) -> None:
        connection.settimeout(_SECONDS)
        self._connection = connection
        self._again, self._seconds = again, seconds
        self._lock, self._over = threading.Lock(), threading.Event()
        self.watches = count()

    def set(self, key: str, value: str) -> None:
        """The name has this text from now on."""
        self._ask("set", key, value)

    def get(self, key: str) -> bytes:
        """Returns the text of a name, empty if it has none."""
        return str(self._ask("get", key)).encode()

    def check(self, keys: Sequence[str]) -> bool:
        """Returns whether all these names have a text."""
        return bool(self._ask("check", list(keys)))

    def compare_set(self, key: str, expected: str, desired: str) -> bytes:
        """Returns the text of a name, which is `desired` if it had none, or `expected`."""
        return str(self._ask("compare_set", key, expected, desired)).encode()

    def clone(self) -> Self:
        """Returns the store itself: threads may share it."""
        return self

    def close(self) -> None:
        """The connection to its keeper is closed, and no other one is tried for."""
        self._over.set()
        self._connection.close()

    def _ask(self, name: str, *arguments: Any) -> Any:
        with self._lock:
            deadline = None
            while True:
                try:
                    _send(self._connection, [name, arguments])
                    return _receive(self._connection)
                except (OSError, ValueError) as error:
                    now = time.monotonic()
                    deadline = now + self._seconds if deadline is None else deadline
                    self._connection.close()
                    self._dial(deadline - now, error)

    def _dial(self, left: float, reason: Exception) -> None:
        """There is another connection in place of one that broke."""
        try:
            if self._again is None or left <= 0.0 or self._over.is_set():
                raise reason
            self._connection = self._again(left, self._over)
            self._connection.settimeout(_SECONDS)
        except (OSError, ValueError, PeaError) as error:
            raise StoreLostError(f"the host that keeps the store is lost: {error}") from error


def _text(argument: Any) -> Any:
    """Returns a text, or texts; ValueError for anything else."""
    texts = argument if isinstance(argument, list) else [argument]
    if not all(isinstance(each, str) for each in texts):
        raise ValueError("an argument other than a text")
    return argument


def _send(connection: ssl.SSLSocket, value: Any) -> None:
    text = json.dumps(value).encode()
    connection.sendall(_LENGTH.pack(len(text)) + text)


def _receive(connection: ssl.SSLSocket) -> Any:
    (size,) = _LENGTH.unpack(_read(connection, _LENGTH.size))
    if size > LARGEST:
        raise ValueError(f"a message of {size} bytes")
    return json.loads(_read(connection, size))


def _read(connection: ssl.SSLSocket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        data = connection.recv(size - len(found))
        if not data:
            raise ConnectionResetError("the connection was closed")
        found += data
    return found
