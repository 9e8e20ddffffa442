"""Connections that are written down on their way, for tests that look for what must not travel."""

import socket
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import numpy as np

from extensions.ring.fixed_point import Integers, encode


class Recording:
    """Takes connections on loopback, hands them on, and keeps all bytes of both directions.

    Args:
        address: HOST:PORT of whom they are handed to.

    Attributes:
        address: where it takes them.
        streams: what each end of each connection sent.
        callers: for each stream, the port of the end that connected.
    """

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._to = host, int(port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.streams: list[bytearray] = []
        self.callers: list[int] = []
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                one, _ = self._listener.accept()
                other = socket.create_connection(self._to)
                self._open += [one, other]
                for source, sink in ((one, other), (other, one)):
                    self.streams.append(bytearray())
                    self.callers.append(one.getpeername()[1])
                    ends = (source, sink, self.streams[-1])
                    self._threads.append(threading.Thread(target=_hand_on, args=ends))
                    self._threads[-1].start()

    def close(self) -> None:
        """Ends all connections."""
        for one in (self._listener, *self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for one in (self._listener, *self._open):
            one.close()


def _hand_on(source: socket.socket, sink: socket.socket, stream: bytearray) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            stream += data
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)


@contextmanager
def recorded(addresses: Mapping[str, str]) -> Iterator[dict[str, Recording]]:
    """Yields a recording for each address, by name."""
    with ExitStack() as stack:
        recordings = {name: Recording(address) for name, address in addresses.items()}
        for one in recordings.values():
            stack.callback(one.close)
        yield recordings


def ports_of(pid: int) -> set[int]:
    """Returns the local ports of a process's connections by TCP."""
    own = set()
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            own.add(each.readlink().name)
    ports = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            _, local, *rest = line.split()
            if f"socket:[{rest[7]}]" in own:
                ports.add(int(local.rpartition(":")[2], 16))
    return ports


def words_in(streams: Iterable[bytes], words: Integers) -> int:
    """Returns how many of these pieces of four ring integers, (pieces, 4), are in a stream."""
    both = [*map(bytes, streams)]
    return sum(any(piece.tobytes() in stream for stream in both) for piece in words)


def forms(values: Integers, reals: Sequence[float]) -> list[bytes]:
    """Returns neighbouring numbers of a record as messages may have them.

    Args:
        values: ring integers.
        reals: the same as real numbers.
    """
    varints = b"".join(map(_varint, values.tolist()))
    floats = np.array(reals)
    return [values.tobytes(), varints, floats.tobytes(), floats.astype(np.float32).tobytes()]


def _varint(value: int) -> bytes:
    """A number as protocol buffers pack it."""
    value %= 1 << 64
    groups = []
    while True:
        value, group = value >> 7, value & 127
        groups.append(group | (128 if value else 0))
        if not value:
            return bytes(groups)


def found_in(streams: Iterable[bytes], records: Sequence[Sequence[float]], frac_bits: int) -> int:
    """Returns of how many records some four neighbouring numbers are in a stream."""
    looked_for: dict[int, list[tuple[bytes, int]]] = {}
    for number, record in enumerate(records):
        for form in _forms_of(record, frac_bits):
            looked_for.setdefault(int.from_bytes(form[:8], "little"), []).append((form, number))
    beginnings = np.array([*looked_for], dtype=np.uint64)
    found = set()
    for stream in map(bytes, streams):
        for offset in range(min(8, len(stream) // 16)):
            words = np.frombuffer(stream, np.uint64, (len(stream) - offset) // 8, offset)
            for place in np.flatnonzero(np.isin(words, beginnings)).tolist():
                at = offset + 8 * place
                for form, number in looked_for[int(words[place])]:
                    if stream[at : at + len(form)] == form:
                        found.add(number)
    return len(found)


def _forms_of(record: Sequence[float], frac_bits: int) -> Iterator[bytes]:
    encoded = encode(np.array(record), frac_bits)
    for start in range(0, len(record) - 3, 4):
        part = slice(start, start + 4)
        if np.abs(encoded[part]).min() > 1 << 8:  # no numbers that others would hit upon
            yield from forms(encoded[part], record[part])
