"""A cable from a host to another one's port: it breaks, alters what it carries, or is slow."""

import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import numpy as np

_RESET = struct.pack("ii", 1, 0)


class Cable:
    """Carries connections from a port of its own to another one, until the `with` block ends.

    Args:
        target: where the other host listens.

    Attributes:
        listener: where this one does.
        limit: returns after how many bytes the next connection breaks; None for never.
        rate: bytes a second in each direction; None for all that come.
        alter: what becomes of bytes on their way, in both directions.
        carried: what the connections carried towards the target, one after another.
    """

    def __init__(self, target: tuple[str, int]) -> None:
        self.target = target
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.limit: Callable[[], int | None] = lambda: None
        self.rate: int | None = None
        self.alter: Callable[[bytes], bytes] = lambda data: data
        self.carried: list[bytearray] = []
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._every: list[socket.socket] = []
        self.is_out = False
        self._accepting = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> "Cable":
        self._accepting.start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # or the thread would take one connection more
            self.listener.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        self.listener.close()
        self.reset()
        for connection in self._every:
            connection.close()

    def reset(self, ends: tuple[int, ...] = (0, 1)) -> None:
        """All connections break now: these ends are told, 0 is that which dialled."""
        pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for end in ends:
                _reset(pair[end])

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                if self.is_out:
                    _reset(near)
                    continue
                try:
                    far = socket.create_connection(self.target)
                except OSError:  # nobody is there any more
                    _reset(near)
                    continue
                self._pairs.append((near, far))
                self._every += near, far
                self.carried.append(bytearray())
                left = [self.limit()]
                for ends, record in (((near, far), self.carried[-1]), ((far, near), None)):
                    arguments = (*ends, left, record)
                    threading.Thread(target=self._carry, args=arguments, daemon=True).start()

    def _carry(
        self,
        source: socket.socket,
        sink: socket.socket,
        left: list[int | None],
        record: bytearray | None,
    ) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16 if self.rate is None else self.rate // 10 + 1):
                if record is not None:
                    record += data
                if self.rate is not None:
                    time.sleep(len(data) / self.rate)  # that is what is slow about it
                if left[0] is not None:
                    data, left[0] = data[: left[0]], left[0] - len(data)
                    if left[0] <= 0:  # some of it arrives, nothing after
                        sink.sendall(data)
                        _reset(source)
                        _reset(sink)
                        return
                sink.sendall(self.alter(data))
            sink.shutdown(socket.SHUT_WR)


def _reset(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        socket.socket.shutdown(connection, socket.SHUT_RD)  # its thread leaves it
    with suppress(OSError):
        connection.close()


def cuts_of(seed: int, number: int, least: int, most: int) -> Callable[[], int | None]:
    """Returns what says after how many bytes each of the first connections breaks."""
    left = np.random.default_rng(seed).integers(least, most, number).tolist()
    return lambda: left.pop() if left else None
